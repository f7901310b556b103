#include <fmt/format.h>

#include "models.hpp"

namespace stickybit::cli {
namespace {

bool same_but_inputs(machine_unit const& a, machine_unit const& b) {
  return a.instruction == b.instruction && a.output == b.output && a.block_size == b.block_size && a.alignment_fraction_bits == b.alignment_fraction_bits &&
         a.min_alignment_exponent == b.min_alignment_exponent && a.output_rounding == b.output_rounding && a.accumulator == b.accumulator && a.facts.data() == b.facts.data() &&
         a.output_fraction_bits == b.output_fraction_bits && a.instruction_k == b.instruction_k && a.order == b.order && a.arithmetic == b.arithmetic &&
         a.scale_block == b.scale_block && a.scale == b.scale && a.flushes_subnormals == b.flushes_subnormals;
}

/// machine.family, input and output of a unit's name.
struct name_parts {
  std::string_view before, input, after;
};
name_parts parts_of(std::string_view name) {
  const std::size_t first = name.find('.', name.find('.') + 1) + 1, last = name.rfind('.');
  return {name.substr(0, first), name.substr(first, last - first), name.substr(last)};
}

std::string number(format f) {
  switch (f) {
    case format::f32: return "FP32";
    case format::f16: return "FP16";
    case format::f64: return "FP64";
    default: return std::string(traits_of(f).name);
  }
}

std::string scale_words(machine_unit const& u) {
  return u.is_scaled() ? fmt::format(", times {} scales, one of A and one of B for {} products", traits_of(u.scale).name, u.scale_block) : std::string();
}

}  // namespace

std::vector<unit_family> families_of(machine const& m) {
  std::vector<unit_family> families;
  std::vector<std::string> inputs;
  const auto close = [&] {
    if (families.empty()) return;
    name_parts const p = parts_of(families.back().first->name);
    std::string list;
    for (std::string const& input : inputs) list += (list.empty() ? "" : ",") + input;
    families.back().name = inputs.size() == 1 ? fmt::format("{}{}{}", p.before, list, p.after) : fmt::format("{}{{{}}}{}", p.before, list, p.after);
    inputs.clear();
  };
  for (machine_unit const& u : m.units) {
    if (families.empty() || !same_but_inputs(*families.back().first, u) || parts_of(families.back().first->name).before != parts_of(u.name).before) {
      close();
      families.push_back({"", &u, 0});
    }
    ++families.back().count;
    inputs.emplace_back(parts_of(u.name).input);
  }
  close();
  return families;
}

std::string arithmetic_words(machine_unit const& u) {
  const std::string scales = scale_words(u);
  switch (u.arithmetic) {
    case block_arithmetic::aligned_sum:
      return fmt::format("{} products{}{} cut at 2^(E-{}), E at least {}", u.block_size, scales, u.accumulator == accumulator_place::aligned ? " and c" : "", u.alignment_fraction_bits,
                         u.min_alignment_exponent);
    case block_arithmetic::grouped_sum:
      return fmt::format("exact sums of {} products{}; {} of them and c cut at 2^(E-{})", u.group_size, scales, u.block_size / u.group_size, u.alignment_fraction_bits);
    case block_arithmetic::exact_sum: return fmt::format("exact sum of {} products and c", u.block_size);
    case block_arithmetic::rounded_tree: return fmt::format("tree of rounded sums over {} rounded products, then c", u.block_size);
    case block_arithmetic::two_stage_sum:
      return fmt::format("{} products cut at 2^(E-{}), E without c; their sum, cut at 2^(E'-{}), plus c", u.block_size, u.alignment_fraction_bits, u.sum_fraction_bits);
    case block_arithmetic::fma_chain: return "one FMA a product";
  }
  return {};
}

std::string instruction_words(machine_unit const& u) {
  std::string words;
  const int blocks = u.instruction_k / u.block_size;
  if (blocks > 1) words = fmt::format("{} blocks", blocks);
  if (u.order == product_order::pairs) words += ", pairs of k";
  if (u.order == product_order::even_odd) words = "even and odd k apart";
  if (u.accumulator == accumulator_place::added_last) words += (words.empty() ? "" : ", ") + std::string("from 0, c added last");
  if (u.flushes_subnormals) words += (words.empty() ? "" : ", ") + std::string("subnormals are 0");
  return words;
}

std::string result_words(machine_unit const& u) {
  const std::string cut = u.output == format::f32 && u.output_fraction_bits < 23 ? fmt::format(", {} fraction bits", u.output_fraction_bits) : std::string();
  return fmt::format("{} {}{}", number(u.output), name_of(u.output_rounding), cut);
}

}  // namespace stickybit::cli
