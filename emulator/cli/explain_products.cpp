#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/explain/difference.hpp"
#include "stickybit/explain/operations.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/with_format.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::cli {
namespace {

std::uint32_t parse_code(format f, std::string const& text) {
  if (f == format::f64) throw std::invalid_argument("no accounts of FP64 operands");
  return with_format(f, [&]<format F>() { return std::uint32_t{parse<F>(text).to_bits()}; });
}

std::vector<std::uint32_t> parse_codes(format f, std::vector<std::string> const& texts) {
  std::vector<std::uint32_t> codes;
  for (std::string const& text : texts) codes.push_back(parse_code(f, text));
  return codes;
}

/// Prints one unit's account, or where two part.  `of` makes a unit's account.
template <class Of>
void tell_products(telling_options const& how, std::string const& unit, std::vector<std::string> const& diff, Of&& of, int& status) {
  if (diff.empty()) {
    how.print(of(unit_named(unit)), fmt::format("An inner product on {}", unit));
    return;
  }
  machine_unit const &unit_a = unit_named(diff[0]), &unit_b = unit_named(diff[1]);
  if (unit_a.input != unit_b.input || unit_a.input_b != unit_b.input_b)
    throw std::invalid_argument(fmt::format("--diff: {} takes {}, {} takes {}: expected one format", unit_a.name, traits_of(unit_a.input).name, unit_b.name, traits_of(unit_b.input).name));
  const account a = of(unit_a), b = of(unit_b);
  for (account const* each : {&a, &b}) fmt::print("{}\n{}\n", each == &a ? unit_a.name : unit_b.name, tell(*each, detail_level::paragraph, how.chosen_style()));
  const std::string_view machine_a = unit_a.name.substr(0, unit_a.name.find('.')), machine_b = unit_b.name.substr(0, unit_b.name.find('.'));
  const bool same_machine = machine_a == machine_b;
  const auto difference = first_difference(a, b, same_machine ? unit_a.name : machine_a, same_machine ? unit_b.name : machine_b);
  if (!difference) fmt::print("Both give the same codes.\n");
  else fmt::print("{}", tell(*difference));
  status = difference ? 1 : 0;
}

void add_diff(CLI::App& command, std::vector<std::string>& diff) {
  command.add_option("--diff", diff, "UNIT_A UNIT_B: where two units part, instead of one account; status 1 where they do")->expected(2)->allow_extra_args(false);
}

void add_explain_dot(CLI::App& explain, int& status) {
  struct options {
    telling_options how;
    std::string unit = "sm90.wgmma.bf16.f32", c = "0";
    std::vector<std::string> a, b, diff;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("dot", "c + a·b on a tensor core, block by block");
  command->add_option("--unit", o->unit, "see `stickybit models`")->capture_default_str();
  command->add_option("--a", o->a, "codes (0x3f80) or numbers of the unit's input format, comma between")->required()->delimiter(',');
  command->add_option("--b", o->b, "as many")->required()->delimiter(',');
  command->add_option("--c", o->c, "the FP32 accumulator")->capture_default_str();
  add_diff(*command, o->diff);
  o->how.add_to(*command);
  command->callback([o, &status] {
    const auto of = [&](machine_unit const& unit) {
      const std::vector<std::uint32_t> a = parse_codes(unit.input, o->a), b = parse_codes(unit.input_b, o->b);
      return account_of_dot(unit, raw_operands{a, b}, parse_f32(o->c));
    };
    tell_products(o->how, o->unit, o->diff, of, status);
  });
}

/// What the file has recorded for the element.
struct recorded_codes {
  std::string lines;  ///< one a tensor, against the account's code; empty where there is none
  bool differ = false;
};
recorded_codes compare_recorded(tensor_file const& file, std::int64_t m, std::int64_t n, std::int64_t row, std::int64_t column, account const& a) {
  recorded_codes codes;
  const f32_code d = f32_code::from_bits(a[a.size() - 1].bits);
  for (named_tensor const& t : file.tensors()) {
    const bool wide = t.value.type == dtype::f32 && (t.name == "d" || t.name.ends_with(".d_f32")), narrow = t.value.type == dtype::bf16 && t.name.ends_with(".d_bf16");
    if ((!wide && !narrow) || t.value.shape != std::vector{m, n}) continue;
    const auto at = std::size_t(row * n + column);
    const std::uint32_t recorded = wide ? t.value.elements<f32_code>()[at].to_bits() : t.value.elements<bf16_code>()[at].to_bits();
    const std::uint32_t here = wide ? d.to_bits() : convert<format::bf16>(d).to_bits();
    codes.differ = codes.differ || recorded != here;
    codes.lines += fmt::format("recorded {}: 0x{:0{}X}, {}\n", t.name, recorded, wide ? 8 : 4, recorded == here ? "the same code" : fmt::format("ANOTHER CODE than 0x{:0{}X}", here, wide ? 8 : 4));
  }
  return codes;
}

struct gemm_options {
  telling_options how;
  std::string file, unit = "sm90.wgmma.bf16.f32";
  std::vector<std::string> at, diff;
  int slices = 1;
};

/// @param recorded  gets what compare_recorded says
account element_account(machine_unit const& unit, tensor_file const& file, gemm_options const& o, recorded_codes& recorded) {
  const gemm_shape shape = read_gemm_shape(file);
  const std::int64_t row = parse_index(o.at[0]), column = parse_index(o.at[1]);
  if (row < 0 || row >= shape.m) throw std::out_of_range(fmt::format("row {}: expected 0 to {}", row, shape.m - 1));
  if (column < 0 || column >= shape.n) throw std::out_of_range(fmt::format("column {}: expected 0 to {}", column, shape.n - 1));
  const auto line = [&](const char* name, format f, std::int64_t at) {
    const std::vector<std::uint64_t> all = read_operand_bits(file, name, f);
    const auto first = all.begin() + at * shape.k;
    return std::vector<std::uint32_t>(first, first + shape.k);
  };
  const std::vector<std::uint32_t> a = line("a", unit.input, row), b = line("b", unit.input_b, column);
  const f32_code c = file.find("c") == nullptr ? f32_code::zero() : file.require("c", dtype::f32, {shape.m, shape.n}).elements<f32_code>()[std::size_t(row * shape.n + column)];
  account told = account_of_slices(unit, {a, b}, c, o.slices);
  recorded = compare_recorded(file, shape.m, shape.n, row, column, told);
  return told;
}

void add_explain_gemm(CLI::App& explain, int& status) {
  auto o = std::make_shared<gemm_options>();
  CLI::App* command = explain.add_subcommand("gemm", "one element of D = A Bᵀ (+ C), and whether it is what the file has recorded");
  command->add_option("FILE", o->file, "as `stickybit gemm` takes it; results d, <producer>.d_f32 or .d_bf16 are compared")->required();
  command->add_option("--at", o->at, "ROW,COL")->required()->delimiter(',')->expected(2)->allow_extra_args(false);
  command->add_option("--unit", o->unit, "see `stickybit models`")->capture_default_str();
  command->add_option("--split-k", o->slices, "slices of K, each its own chain, added in FP32")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  add_diff(*command, o->diff);
  o->how.add_to(*command);
  command->callback([o, &status] {
    const tensor_file file = tensor_file::load(o->file);
    recorded_codes recorded;
    const auto of = [&](machine_unit const& unit) { return element_account(unit, file, *o, recorded); };
    tell_products(o->how, o->unit, o->diff, of, status);
    if (!o->diff.empty()) return;
    fmt::print("{}", recorded.lines);
    if (recorded.differ) status = 1;
  });
}

}  // namespace

void add_explain_products(CLI::App& explain, int& status) {
  add_explain_dot(explain, status);
  add_explain_gemm(explain, status);
}

}  // namespace stickybit::cli
