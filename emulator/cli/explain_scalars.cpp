#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/explain/operations.hpp"
#include "stickybit/format/text.hpp"

namespace stickybit::cli {
namespace {

/// The format of that name.  @throws std::invalid_argument listing all
format format_named(std::string const& name) {
  std::string known;
  for (format f : all_formats) {
    if (traits_of(f).name == name) return f;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", traits_of(f).name);
  }
  throw std::invalid_argument(fmt::format("--format {}: expected one of {}", name, known));
}

void add_explain_add(CLI::App& explain) {
  struct options {
    telling_options how;
    std::string format = "bf16";
    std::vector<std::string> operands;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("add", "FP32 operands added left to right in FP32, then rounded to --format");
  command->add_option("--format", o->format, "the result's format: any that `stickybit models` names, bf16, f32, f16, ...")->capture_default_str();
  command->add_option("OPERANDS", o->operands, "decimal, code (0x3f800000) or hex float (0x1p-3); write -- before -inf")->required()->expected(2, 64);
  o->how.add_to(*command);
  command->callback([o] {
    std::vector<f32_code> operands;
    for (std::string const& text : o->operands) operands.push_back(parse_f32(text));
    o->how.print(account_of_add(operands, format_named(o->format)), fmt::format("A sum in FP32, rounded to {}", o->format));
  });
}

std::uint32_t parse_in(format f, std::string const& text) {
  switch (f) {
    case format::bf16: return parse<format::bf16>(text).to_bits();
    case format::f16: return parse<format::f16>(text).to_bits();
    default: return parse_f32(text).to_bits();
  }
}

/// "another code" beside a contrast that differs from the fused result.
std::string contrast_line(std::string_view how, account const& other, account const& fused) {
  account_step const &s = other[other.size() - 1], &f = fused[fused.size() - 1];
  const double error = other.error_in_ulp(other.size() - 1);
  return fmt::format("  {:<52} {:>14.9g}  0x{:0{}X}  {:>11}  {}\n", how, other.value_of(other.size() - 1), s.bits, (traits_of(s.result).width_bits + 3) / 4,
                     std::isfinite(error) ? fmt::format("{:+.4g} ulp", error) : "", s.bits == f.bits ? "the same" : "ANOTHER CODE");
}

void add_explain_fma(CLI::App& explain) {
  struct options {
    telling_options how;
    std::string format = "f32", a, b, c;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("fma", "A·B + C rounded once; beside it what two roundings would give");
  command->add_option("--format", o->format, "of operands and result")->check(CLI::IsMember({"f32", "bf16", "f16"}))->capture_default_str();
  command->add_option("A", o->a, "a number that the format holds, or its code")->required();
  command->add_option("B", o->b, "likewise")->required();
  command->add_option("C", o->c, "likewise")->required();
  o->how.add_to(*command);
  command->callback([o] {
    const format f = format_named(o->format);
    const fma_accounts accounts = accounts_of_fma(f, parse_in(f, o->a), parse_in(f, o->b), parse_in(f, o->c));
    o->how.print(accounts.fused, "A fused multiply-add");
    fmt::print("\nRounded twice it would be:\n");
    if (accounts.through_f32) fmt::print("{}", contrast_line(fmt::format("fma in f32, the result then rounded to {}", o->format), *accounts.through_f32, accounts.fused));
    fmt::print("{}", contrast_line(fmt::format("not fused: the product rounded to {}, then the sum", o->format), accounts.unfused, accounts.fused));
  });
}

void add_explain_cast(CLI::App& explain) {
  struct options {
    telling_options how;
    std::string format = "bf16", mode = "nearest_even", x;
    bool flush = false;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("cast", "an FP32 number rounded to another format");
  command->add_option("X", o->x, "decimal, code (0x3f800000) or hex float (0x1p-3)")->required();
  command->add_option("--format", o->format, "any that `stickybit models` names")->capture_default_str();
  command->add_option("--rounding", o->mode, "which neighbour")
      ->check(CLI::IsMember({"nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd"}))
      ->capture_default_str();
  command->add_flag("--ftz", o->flush, "subnormal results become zero");
  o->how.add_to(*command);
  command->callback([o] {
    rounding mode = rounding::nearest_even;
    for (rounding m : {rounding::nearest_away, rounding::toward_zero, rounding::toward_positive, rounding::toward_negative, rounding::to_odd})
      if (name_of(m) == o->mode) mode = m;
    o->how.print(account_of_cast(parse_f32(o->x), format_named(o->format), mode, o->flush ? subnormals::flushed : subnormals::kept), fmt::format("{} rounded to {}", o->x, o->format));
  });
}

void add_explain_exp2(CLI::App& explain) {
  struct options {
    telling_options how;
    std::string function = "ex2", x;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("exp2", "2^X, or another elementary function, as a GPU computes it");
  command->add_option("X", o->x, "FP32: decimal, code or hex float; write -- before -inf")->required();
  command->add_option("--function", o->function, "MUFU: ex2 (2^x), rcp (1/x), lg2; CUDA's: exp2 (keeps subnormals), expf, logf, log2f")
      ->check(CLI::IsMember({"ex2", "exp2", "expf", "rcp", "lg2", "logf", "log2f"}))
      ->capture_default_str();
  o->how.add_to(*command);
  command->callback([o] {
    operation function = operation::ex2;
    for (operation f : {operation::exp2, operation::expf, operation::rcp, operation::lg2, operation::logf, operation::log2f})
      if (name_of(f) == o->function) function = f;
    o->how.print(account_of_function(function, parse_f32(o->x)), fmt::format("{} of {}", name_of(function), o->x));
  });
}

}  // namespace

void add_explain_scalars(CLI::App& explain) {
  add_explain_add(explain);
  add_explain_fma(explain);
  add_explain_cast(explain);
  add_explain_exp2(explain);
}

}  // namespace stickybit::cli
