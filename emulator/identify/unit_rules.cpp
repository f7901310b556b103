#include "unit_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace stickybit::detail {
namespace {

using unit = machine_unit;

std::vector<int> range(int first, int last) {
  std::vector<int> values(std::size_t(std::max(last - first + 1, 0)));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string rounding_text(rounding mode) {
  switch (mode) {
    case rounding::nearest_even: return "to nearest even";
    case rounding::toward_zero: return "toward zero";
    case rounding::toward_positive: return "toward plus infinity";
    case rounding::toward_negative: return "toward minus infinity";
    case rounding::nearest_away: return "to nearest, ties away from zero";
    case rounding::to_odd: return "to odd (a sticky bit in the last place)";
    case rounding::stochastic: break;
  }
  return "stochastic";
}

/// A rule that is a field of its own.
template <auto Field>
unit_rule field_rule(std::string_view name, std::string (*text)(unit const&), std::vector<int> values) {
  using type = std::remove_cvref_t<decltype(std::declval<unit>().*Field)>;
  return {name, [](unit const& u) { return int(u.*Field); }, [](unit& u, int v) { u.*Field = type(v); }, text, std::move(values)};
}
template <bool unit::* Field>
unit_rule switch_rule(std::string_view name, std::string (*text)(unit const&)) {
  return field_rule<Field>(name, text, {0, 1});
}

const std::vector<int> cuts{int(rounding::toward_zero), int(rounding::nearest_even), int(rounding::toward_negative), int(rounding::toward_positive), int(rounding::nearest_away), int(rounding::to_odd)};

void append(std::vector<unit_rule>& to, std::vector<unit_rule> more) { to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end())); }

std::string place_text(unit const& u) {
  if (u.accumulator == accumulator_place::added_last) return "added last, by an ordinary addition";
  return u.is_plain_chain() || u.join == block_join::chain ? "aligned and cut with the products of the first block" : "aligned and cut with the products of the first block only";
}
std::string join_text(unit const& u) {
  switch (u.join) {
    case block_join::chain: return "each block's result is aligned in the next block, as its c";
    case block_join::sequential: return "each starts from 0; results are added in order";
    case block_join::tree: return "each starts from 0; results are added in pairs";
  }
  return {};
}

}  // namespace

std::vector<unit_rule> ordinary_rules(unit_formats const& formats, bool several_blocks, std::vector<int> fraction_bits) {
  std::vector<unit_rule> rules{
      field_rule<&unit::accumulator>("c", place_text, {0, 1}),
      field_rule<&unit::alignment_fraction_bits>("fraction bits F", [](unit const& u) { return fmt::format("terms are cut at 2^(E-{}), E the largest exponent", u.alignment_fraction_bits); },
                                                 fraction_bits.empty() ? range(0, 50) : std::move(fraction_bits)),
      field_rule<&unit::alignment_rounding>("alignment cut", [](unit const& u) { return rounding_text(u.alignment_rounding); }, cuts),
      switch_rule<&unit::normalizes_products>("product exponent", [](unit const& u) { return std::string(u.normalizes_products ? "of the product's leading bit" : "the sum of the operands' exponents, not normalised"); }),
      field_rule<&unit::output_rounding>("output rounding", [](unit const& u) { return rounding_text(u.output_rounding); }, cuts),
      field_rule<&unit::addition_rounding>("additions", [](unit const& u) { return "rounded " + rounding_text(u.addition_rounding); }, {int(rounding::nearest_even), int(rounding::toward_zero)}),
  };
  if (several_blocks) rules.push_back(field_rule<&unit::join>("blocks are joined", join_text, {0, 1, 2}));
  if (formats.output == format::f32) {
    std::vector<int> bits = range(2, 23);
    std::reverse(bits.begin(), bits.end());
    rules.push_back(field_rule<&unit::output_fraction_bits>("output precision", [](unit const& u) { return fmt::format("FP32 with {} fraction bits", u.output_fraction_bits); }, bits));
    rules.push_back(switch_rule<&unit::shortens_c>("c before it is aligned", [](unit const& u) { return std::string(u.shortens_c ? "rounded to the output's fraction bits" : "as it is"); }));
  } else if (formats.c == format::f32) {
    rules.push_back(switch_rule<&unit::keeps_wide_c>("c before it is aligned", [](unit const& u) { return std::string(u.keeps_wide_c ? "as it is, FP32" : "rounded to FP16, to nearest even"); }));
  }
  return rules;
}

std::vector<unit_rule> small_rules(unit_formats const& formats) {
  const int e_min = traits_of(formats.output).e_min();
  std::vector<int> clamps = range(e_min - 48, e_min + 12);
  clamps.insert(clamps.begin(), no_clamp);
  std::vector<unit_rule> rules{
      field_rule<&unit::min_alignment_exponent>("clamp of E", [](unit const& u) { return u.min_alignment_exponent == no_clamp ? std::string("none") : fmt::format("E is at least {}", u.min_alignment_exponent); }, clamps),
      switch_rule<&unit::zero_products_in_maximum>("zero operands in the maximum", [](unit const& u) { return std::string(u.zero_products_in_maximum ? "count with their format's smallest exponent" : "do not count"); }),
      switch_rule<&unit::zero_c_in_maximum>("c = 0 in the maximum", [](unit const& u) { return std::string(u.zero_c_in_maximum ? "counts with the output's smallest exponent" : "does not count"); }),
      switch_rule<&unit::flushes_operands>("subnormal operands", [](unit const& u) { return std::string(u.flushes_operands ? "are +0" : "are numbers"); }),
      switch_rule<&unit::flushes_c>("subnormal c", [](unit const& u) { return std::string(u.flushes_c ? "is zero" : "is a number"); }),
      switch_rule<&unit::flushes_results>("subnormal results", [](unit const& u) { return std::string(u.flushes_results ? "become zero" : "are kept"); }),
      switch_rule<&unit::negative_cancellation>("an exact zero sum", [](unit const& u) { return std::string(u.negative_cancellation ? "is -0" : "is +0"); }),
      switch_rule<&unit::keeps_negative_zero>("all terms -0", [](unit const& u) { return std::string(u.keeps_negative_zero ? "give -0" : "give +0"); }),
      switch_rule<&unit::keeps_underflow_sign>("a negative sum that rounds to zero", [](unit const& u) { return std::string(u.keeps_underflow_sign ? "is -0" : "is +0"); }),
  };
  if (formats.a == format::e4m3fn || formats.b == format::e4m3fn)
    rules.push_back(switch_rule<&unit::converts_to_f16>("E4M3 subnormals in the maximum", [](unit const& u) { return std::string(u.converts_to_f16 ? "count with the exponent of their leading bit, as FP16" : "count with the smallest exponent"); }));
  return rules;
}

std::vector<unit_rule> large_rules() {
  return {field_rule<&unit::beyond>("overflow", [](unit const& u) { return std::string(u.beyond == overflow::to_infinity ? "to infinity" : u.beyond == overflow::saturate ? "to the largest number" : "as IEEE 754 has it for the rounding"); },
                                    {int(overflow::to_infinity), int(overflow::saturate), int(overflow::by_mode)})};
}

std::vector<unit_rule> low_bit_rules(unit_formats const& formats) {
  if (formats.a != format::tf32 && formats.b != format::tf32) return {};
  return {field_rule<&unit::tf32_rounding>("low 13 bits of TF32", [](unit const& u) { return u.tf32_rounding == rounding::toward_zero ? std::string("are cut") : "are rounded " + rounding_text(u.tf32_rounding); },
                                           {int(rounding::toward_zero), int(rounding::nearest_even), int(rounding::nearest_away)})};
}

std::vector<unit_rule> all_rules(unit_formats const& formats, bool several_blocks) {
  std::vector<unit_rule> rules = ordinary_rules(formats, several_blocks, {});
  append(rules, small_rules(formats));
  append(rules, large_rules());
  append(rules, low_bit_rules(formats));
  return rules;
}

bool is_canonical(machine_unit const& u) noexcept {
  const bool adds = u.accumulator == accumulator_place::added_last || u.join != block_join::chain;
  if (!adds && u.addition_rounding != rounding::nearest_even) return false;
  if (u.shortens_c && (u.output_fraction_bits == 23 || u.accumulator == accumulator_place::added_last)) return false;
  if (u.keeps_wide_c && u.accumulator == accumulator_place::added_last) return false;
  if (u.join == block_join::tree && u.instruction_k <= 2 * u.block_size) return false;  // two blocks have one order
  return true;
}

std::vector<std::vector<int>> blocks_in(machine_unit const& u) {
  const int n = u.block_size, places = u.permutation.empty() ? u.instruction_k : int(u.permutation.size());
  std::vector<std::vector<int>> blocks;
  for (int i = 0; i < places; ++i) {
    if (i % n == 0) blocks.emplace_back();
    const int b = i / n, j = i % n;
    const int k = !u.permutation.empty() ? u.permutation[std::size_t(i)] : u.order == product_order::pairs ? j / 2 * 4 + j % 2 + 2 * b : i;
    if (k != no_product || u.permutation.empty()) blocks.back().push_back(k);
  }
  return blocks;
}

std::string blocks_text(machine_unit const& u) {
  const std::vector<std::vector<int>> blocks = blocks_in(u);
  if (blocks.size() == 1) return fmt::format("one of {} products", blocks[0].size());
  std::string text;
  for (auto const& block : blocks) {
    text += text.empty() ? "k = " : ", then ";
    for (std::size_t i = 0; i < block.size();) {
      std::size_t j = i;
      while (j + 1 < block.size() && block[j + 1] == block[j] + 1) ++j;
      text += fmt::format("{}{}", i == 0 ? "" : " ", block[i]);
      if (j != i) text += fmt::format("{}{}", j == i + 1 ? " " : "-", block[j]);
      i = j + 1;
    }
  }
  return fmt::format("{}: {}", blocks.size(), text);
}

machine_unit blank_unit(unit_formats const& formats) {
  machine_unit u{.name = "measured", .instruction = "measured", .input = formats.a, .output = formats.output, .block_size = formats.k, .alignment_fraction_bits = 25,
                 .min_alignment_exponent = no_clamp, .output_rounding = rounding::toward_zero, .accumulator = accumulator_place::aligned, .facts = {}};
  u.input_b = formats.b;
  u.instruction_k = formats.k;
  return u;
}

}  // namespace stickybit::detail
