#include "stickybit/explain/attention_teller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "element_tables.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

using namespace detail;

std::string code_text(account_step const& s) {
  if (s.result == format::bf16) {
    const auto c = bf16_code::from_bits(std::uint16_t(s.bits));
    return fmt::format("{} ({})", decimal(c), hex_code(c));
  }
  const auto c = f32_code::from_bits(s.bits);
  return fmt::format("{} ({})", decimal(c), hex_code(c));
}

std::string result_sentence(told_element const& e) {
  account const& a = e.steps;
  const std::size_t last = a.size() - 1;
  const double error = a.error_in_ulp(last), exact = a[last].exact.hi;
  const std::string value = fmt::format("{} by {}{} is {}", name_of(e), e.schedule.name, e.fix == "none" ? "" : fmt::format(" with {}", e.fix), code_text(a[last]));
  if (std::isnan(exact)) return fmt::format("{}; there is no mathematical value.", value);
  if (std::isnan(error)) return fmt::format("{}; the mathematical value is {:.10g}.", value, exact);
  if (error == 0) return fmt::format("{}, which is the mathematical value.", value);
  const double absolute = to_double(double_double{a.value_of(last), 0} - a[last].exact);
  return fmt::format("{}; the mathematical value is {:.10g}: too {} by {:.4g}, {} ulp.", value, exact, absolute > 0 ? "high" : "low", std::fabs(absolute), signed_ulps(error));
}

/// " The first step that is not finite is p[0]: inf."; nothing where all are.
std::string where_it_ends(account const& a) {
  const std::optional<std::size_t> i = first_not_finite(a);
  if (!i) return {};
  const double value = a.value_of(*i);
  const std::string where = a[*i].name.symbol.empty() ? fmt::format("{}, on the way to {}", label_of(a, *i), label_of(a, owners(a)[*i])) : label_of(a, *i);
  return fmt::format(" The first step that is not finite is {}: {}.", where, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/// What no single step's share is: of smoothed keys the casts, which make other keys.
std::string_view rest_of(told_element const& e) { return e.fix.find("k-smooth") != e.fix.npos ? "the cast of K - mean to BF16, and products of errors" : "products of errors"; }

std::string paragraph(told_element const& e, error_shares const& shares, std::vector<error_group> const& groups) {
  std::string text = result_sentence(e);
  if (!shares.finite) {
    text += where_it_ends(e.steps);
  } else if (!groups.empty() && shares.total != 0) {
    text += fmt::format(" In ulp of the result, {}", largest_shares(e, groups));
    text += std::fabs(shares.not_linear) > 0.01 * std::fabs(shares.total) ? fmt::format("; {} {}.", rest_of(e), signed_ulps(shares.not_linear)) : ".";
  }
  return text + " " + describe_row(e);
}

std::string share_lines(told_element const& e, error_shares const& shares, std::vector<error_group> const& groups) {
  if (!shares.finite) return {};
  std::string text = "where the error comes from, in ulp of the result (to first order):\n";
  for (error_group const& g : groups) {
    if (g.magnitude < 5e-6 && g.magnitude < 1e-4 * std::fabs(shares.total)) continue;
    const std::string steps = g.steps > 1 ? fmt::format("   {} roundings, {:.3g} without signs", g.steps, g.magnitude) : "";
    text += fmt::format("  {:>12}  {}{}\n", signed_ulps(g.sum), rounding_of(g.symbol, e.tensor), steps);
  }
  if (std::fabs(shares.not_linear) > 1e-3 * std::fabs(shares.total)) text += fmt::format("  {:>12}  {}\n", signed_ulps(shares.not_linear), rest_of(e));
  return text + fmt::format("  {:>12}  in all\n", signed_ulps(shares.total));
}

}  // namespace

std::string name_of(told_element const& e) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> symbols{
      {{"o", "O"}, {"lse", "lse"}, {"delta", "delta"}, {"lse_log2", "lse_log2"}, {"s", "S"}, {"p", "P"}, {"dp", "dP"}, {"ds", "dS"}, {"dq", "dQ"}, {"dk", "dK"}, {"dv", "dV"}}};
  std::string_view symbol = e.tensor;
  for (auto const& [tensor, name] : symbols)
    if (tensor == e.tensor) symbol = name;
  const bool of_key = e.tensor == "dk" || e.tensor == "dv", of_row = e.tensor == "lse" || e.tensor == "delta" || e.tensor == "lse_log2";
  const bool of_pair = e.tensor == "s" || e.tensor == "p" || e.tensor == "dp" || e.tensor == "ds";
  std::string place = e.problem.batch > 1 ? fmt::format("batch {}, ", e.at.batch) : std::string();
  place += fmt::format("{} {}, {} {}", of_key ? "key head" : "head", e.at.head, of_key ? "key" : "row", e.at.row);
  if (!of_row) place += fmt::format(", {} {}", of_pair ? "key" : "column", e.at.column);
  return fmt::format("{}[{}]", symbol, place);
}

std::string detail::largest_shares(told_element const& e, std::vector<error_group> const& groups) {
  const std::size_t shown = std::min<std::size_t>(3, groups.size());
  std::string text;
  double rest = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i < shown) text += fmt::format("{}{} {}", i == 0 ? "" : i + 1 == shown ? " and " : ", ", rounding_of(groups[i].symbol, e.tensor), signed_ulps(groups[i].sum));
    else rest += groups[i].sum;
  }
  if (groups.size() > shown) text += fmt::format("; all else together {}", signed_ulps(rest));
  return text;
}

std::string rounding_of(std::string_view symbol, std::string_view tensor) {
  if (symbol == "S") return "Q·K on the tensor core";
  if (symbol == "x") return "the argument of the exponential";
  if (symbol == "p") return "the exponential";
  if (symbol == "P") return tensor == "o" || tensor == "lse" || tensor == "dv" ? "the cast of P to BF16" : "the weights P";
  if (symbol == "m") return "the running maximum";
  if (symbol == "r") return "the rescale factors";
  if (symbol == "softmax") return "S, its casts, and the softmax in FP32";
  if (symbol == "sum") return "the row sum in FP32";
  if (symbol == "1/sum") return "1/sum";
  if (symbol == "A") return "P·V on the tensor core and O's rescaling";
  if (symbol == "O/sum") return "O times 1/sum";
  if (symbol == "O") return tensor == "o" ? "the cast of O to BF16" : "the stored O";
  if (symbol == "O in FP32") return "O before its cast";
  if (symbol == "lse") return tensor == "lse" ? "the last steps of lse" : "the stored lse";
  if (symbol == "lse2") return "lse in units of log2";
  if (symbol == "weight") return "the weights of the parts";
  if (symbol == "delta") return tensor == "dk" || tensor == "dv" ? "the stored delta" : "the sum of dO∘O in FP32";
  if (symbol == "dP") return "dO·V on the tensor core";
  if (symbol == "dS") return "dS = P(dP − delta) in FP32";
  if (symbol == "dS^") return "the cast of dS to BF16";
  if (symbol == "part") return tensor == "dq" ? "dS·K on the tensor core" : tensor == "dk" ? "dSᵀ·Q on the tensor core" : "Pᵀ·dO on the tensor core";
  if (symbol == "dQ") return "the sum of the parts, the scale and the cast of dQ to BF16";
  if (symbol == "dK") return "the scale and the cast of dK to BF16";
  if (symbol == "dV") return "the cast of dV to BF16";
  if (symbol == "row mass") return "the row mass of dS";
  if (symbol == "wK") return "wK of the correction";
  if (symbol == "share") return "the stored share of the row mass";
  if (symbol == "L") return "s·log2(e) rounded to FP32";
  if (symbol == "s") return "the scale rounded to FP32";
  if (symbol == "log2(e)" || symbol == "ln(2)") return fmt::format("{} rounded to FP32", symbol);
  return symbol.empty() ? std::string("unnamed steps") : std::string(symbol);
}

std::string tell(told_element const& e, detail_level level, text_style style) {
  const error_shares shares = share_error(e.steps);
  const std::vector<error_group> groups = group_shares(e.steps, shares);
  std::string text = wrapped(paragraph(e, shares, groups), 110);
  if (level == detail_level::paragraph) return text;
  text += "\n" + tables_of(e, shares) + share_lines(e, shares, groups);
  const std::size_t last = e.steps.size() - 1;
  if (e.steps[last].op != operation::input) text += "the last step:\n" + tell_step(e.steps, last, style);
  text += fmt::format("result {}", code_text(e.steps[last]));
  if (!std::isnan(shares.total)) text += fmt::format("; exact {:.17g}; error {} ulp", e.steps[last].exact.hi, signed_ulps(shares.total));
  text += "\n";
  if (level == detail_level::everything) text += "\nevery step:\n" + tell(e.steps, detail_level::everything, style);
  return text;
}

}  // namespace stickybit
