#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "risk_words.hpp"

namespace stickybit {
namespace words {
namespace {

/// What rounds at a point, of forward and backward kernels.
constexpr std::array<std::pair<std::string_view, std::string_view>, 24> places{{
    {"s", "the tensor core's sum of Q K"},
    {"exp_argument", "the exponent's scaling and subtraction"},
    {"exp2", "the exponential"},
    {"p_cast", "the cast of P to BF16"},
    {"pv", "the tensor core's sum of P V"},
    {"rescale", "the rescaling when the maximum grows"},
    {"row_sum", "the row sum of P"},
    {"o_bar_cast", "the cast of the sum of P V to BF16 before the division"},
    {"inverse", "the division by the row sum"},
    {"join", "the joining of split keys"},
    {"o_cast", "the cast of O to BF16"},
    {"stored_o", "the stored O, rounded to BF16, from which delta is formed"},
    {"delta_sum", "the sum of dO O in FP32"},
    {"stored_lse", "the stored lse"},
    {"dp", "the tensor core's sum of dO V"},
    {"ds_arithmetic", "dP - delta and its product with P"},
    {"ds_cast", "the cast of dS to BF16"},
    {"dq_chain", "the tensor core's sum of dS K"},
    {"dq_sum", "the sum of dQ's parts"},
    {"dk_chain", "the tensor core's sum of dS Q"},
    {"dv_chain", "the tensor core's sum of P dO"},
    {"scale", "the scale"},
    {"group_sum", "the sum over the heads of a group"},
    {"output_cast", "the last cast to BF16"},
}};

std::string_view place(std::string_view point) {
  const auto found = std::ranges::find(places, point, &std::pair<std::string_view, std::string_view>::first);
  return found == places.end() ? point : found->second;
}

std::string by_point(finding const& f, risk_inputs const& inputs) {
  const bool mean = f.kind == finding_kind::mean;
  const point_share top = largest_share(inputs, f.tensor, mean ? &point_share::mean_ulp : &point_share::rms_ulp);
  if (top.point.empty()) return {};
  if (mean) return fmt::format("{} makes {:+.3g} of the {:+.3g} ulp", place(top.point), top.mean_ulp, f.before.value);
  return fmt::format("{} makes the largest part of the error, {:.3g} ulp rms", place(top.point), top.rms_ulp);
}

std::string by_row_mass(finding const& f, early_warnings const& w) {
  if (!(w.row_mass_over_dq >= 0.01)) return std::isnan(w.row_mass_over_dq) ? std::string() : fmt::format("not the row mass of dS, which makes only {} of dQ", percent(w.row_mass_over_dq));
  std::string parts;
  if (!std::isnan(w.row_mass_score_cast))
    parts = fmt::format(": {} because the O in delta is not the sum of P V (P and O are rounded), {} because dP and delta are summed by different arithmetic, {} from the cast of dS", percent(w.row_mass_rounded_output),
                        percent(w.row_mass_different_arithmetic), percent(w.row_mass_score_cast));
  return fmt::format("rows of dS do not add up to 0, and what is left puts {} of |dQ| along PK{}{}", percent(w.row_mass_over_dq), f.tensor == "dk" ? " and enters dK along Q" : "", parts);
}

}  // namespace

std::string_view tensor(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 7> shown{"O", "delta", "dP", "dS", "dQ", "dK", "dV"};
  const auto found = std::ranges::find(bias_tensors, name);
  return found == bias_tensors.end() ? name : shown[std::size_t(found - bias_tensors.begin())];
}

std::string percent(double x) {
  if (std::isnan(x)) return "unknown";
  return x >= 0.1 ? fmt::format("{:.0f}%", 100 * x) : x >= 0.01 ? fmt::format("{:.1f}%", 100 * x) : fmt::format("{:.3f}%", 100 * x);
}

std::string value_in_unit(warning_description const& d, double x) {
  if (std::isnan(x)) return "not defined";
  return d.unit == "share" || d.unit == "relative" ? percent(x) : fmt::format("{:.3g}", x);
}

point_share largest_share(risk_inputs const& inputs, std::string_view tensor, double point_share::*part) {
  const auto found = inputs.shares.find(tensor);
  if (found == inputs.shares.end() || found->second.empty()) return {};
  return *std::ranges::max_element(found->second, {}, [&](point_share const& s) { return std::fabs(s.*part); });
}

std::string_view cured_by(std::string_view fix) noexcept {
  if (fix == "two-row-sums") return "the numerator sums P in BF16, the divisor P in FP32";
  if (fix == "subtract-first") return "the exponent of the largest score is not exactly 0";
  if (fix.starts_with("beta")) return "weights that are exactly 1";
  if (fix == "delta-mma") return "dP and delta are summed by different arithmetic";
  if (fix == "delta-hilo" || fix == "delta-fp32") return "delta is formed from an O rounded to BF16";
  if (fix == "delta-pdp") return "delta is not the sum of the kernel's own P dP";
  if (fix == "k-smooth") return "the keys have a common mean";
  if (fix == "gproj") return "rows of dS do not add up to 0";
  return fix == "fp32" ? "operands and sums in less than FP32" : "";
}

std::string cause(finding const& f, risk_inputs const& inputs) {
  early_warnings const& w = inputs.warnings;
  const bool of_mass = f.tensor == "dq" || f.tensor == "dk" || f.tensor == "ds";
  std::string text = of_mass && f.kind == finding_kind::rows ? by_row_mass(f, w) : by_point(f, inputs);
  if ((f.tensor == "o" || f.tensor == "delta" || f.tensor == "dv") && w.raised(warning_kind::repeated_maxima)) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} of the rows have a repeated maximum", percent(w.repeated_maxima));
  }
  return text;
}

}  // namespace words

namespace {

using words::percent;

std::string unit_of(std::string_view tensor) { return tensor == "delta" || tensor == "dp" ? "FP32 ulp" : "BF16 ulp"; }

/// delta has one column a head.
std::string_view columns_of(std::string_view tensor) { return tensor == "delta" ? "heads" : "columns"; }

std::string size_text(finding const& f, finding_size s) {
  switch (f.kind) {
    case finding_kind::mean: return fmt::format("{:+.4g} ± {:.2g} ulp", s.value, s.error);
    case finding_kind::columns: return fmt::format("{:.0f} biased {}", s.value, columns_of(f.tensor));
    case finding_kind::rows: return percent(s.value);
  }
  return {};
}

std::string what(finding const& f) {
  const std::string_view name = words::tensor(f.tensor);
  switch (f.kind) {
    case finding_kind::mean:
      return fmt::format("{} is too {}: {:+.4g} ± {:.2g} {} on average, {:.3g} standard errors", name, f.direction > 0 ? "high" : "low", f.before.value, f.before.error, unit_of(f.tensor),
                         f.significance);
    case finding_kind::columns:
      return fmt::format("{} is biased in {:.0f} of {} {}, most clearly by {:+.3g} {} ({:.3g} standard errors); they cancel in its mean", name, f.before.value, f.of_columns,
                         columns_of(f.tensor), f.largest_column, unit_of(f.tensor), f.significance);
    case finding_kind::rows: return fmt::format("{} is wrong: half of its rows err by {} of their length or more", name, percent(f.before.value));
  }
  return {};
}

std::string others(finding const& f) {
  std::string list;
  for (tried_fix const& t : f.tried)
    if (t.fix != f.best.fix) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", t.fix, size_text(f, t.after));
  return list.empty() ? list : fmt::format(" Others: {}.", list);
}

std::string remedy(finding const& f) {
  switch (f.effect) {
    case fix_effect::not_tried:
      if (f.tensor == "ds") return " Fix: none is tried on dS; it is judged by dQ and dK.";
      return f.tensor == "dp" ? " Fix: none changes the tensor core's sum of dP." : " Fix: none could be tried.";
    case fix_effect::none: {
      std::string list;
      for (tried_fix const& t : f.tried) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", t.fix, size_text(f, t.after));
      return fmt::format(" Fix: none of those tried lessens it clearly ({}); all of it remains.", list);
    }
    case fix_effect::lessens:
      return fmt::format(" Fix: none of the {} tried removes it; {} lessens it most, from {} to {}, which remains.{}", f.tried.size(), f.best.fix, size_text(f, f.before), size_text(f, f.best.after),
                         others(f));
    case fix_effect::removes:
      return fmt::format(" Fix: {} removes it, from {} to {}, which remains.{}", f.best.fix, size_text(f, f.before), size_text(f, f.best.after), others(f));
  }
  return {};
}

std::string caveats(finding const& f) {
  std::string text;
  if (!f.best.worsens.empty()) text += fmt::format(" It makes rows of other tensors worse: {}.", fmt::join(f.best.worsens, ", "));
  if (!f.has_floor) return text;
  const double floor = std::fabs(f.floor.value);
  if (f.kind == finding_kind::mean && floor >= std::fabs(f.before.value) / 2)
    text += fmt::format(" Even the exact {} rounded once to BF16 is off by {}: the rounding itself has a side here, so keep the rounded {} out of what follows.", words::tensor(f.tensor),
                        size_text(f, f.floor), words::tensor(f.tensor));
  if (f.kind == finding_kind::rows) text += fmt::format(" No result in BF16 is below {}.", percent(floor));
  return text;
}

std::string sentence(finding const& f) {
  std::string text = what(f);
  if (f.has_prediction && f.kind == finding_kind::mean) text += fmt::format(" (predicted without emulation: {:+.4g} ± {:.2g})", f.predicted.mean_ulp, f.predicted.standard_error_ulp);
  if (f.small) return text + fmt::format("; {:.1e} of a BF16 ulp, too small to matter, so no fix is tried.",
                                         std::fabs(f.kind == finding_kind::columns ? f.largest_column : f.before.value) * (unit_of(f.tensor) == "FP32 ulp" ? 0x1p-16 : 1));
  text += ".";
  if (!f.cause.empty()) text += fmt::format(" Why: {}.", f.cause);
  return text + remedy(f) + caveats(f);
}

/// Which fix removes what, in one line; empty without a finding that matters.
std::string summary(std::vector<finding> const& findings) {
  std::vector<std::pair<std::string, std::string>> by_fix;  // fix, tensors
  std::string open;
  std::int64_t count = 0;
  const auto append = [](std::string& list, std::string_view name) { list += fmt::format("{}{}", list.empty() ? "" : ", ", name); };
  for (finding const& f : findings) {
    if (f.small) continue;
    ++count;
    if (f.effect != fix_effect::removes) {
      append(open, words::tensor(f.tensor));
      continue;
    }
    auto at = std::ranges::find(by_fix, f.best.fix, &std::pair<std::string, std::string>::first);
    if (at == by_fix.end()) at = by_fix.insert(by_fix.end(), {f.best.fix, {}});
    append(at->second, words::tensor(f.tensor));
  }
  if (count == 0) return {};
  std::string text = fmt::format("In short: {} finding{} that matter{}.", count, count == 1 ? "" : "s", count == 1 ? "s" : "");
  for (auto const& [fix, tensors] : by_fix) text += fmt::format(" {} removes what is wrong with {}.", fix, tensors);
  if (!open.empty()) text += fmt::format(" Not removed by any fix tried: {}.", open);
  return text;
}

void add_warnings(early_warnings const& w, std::vector<std::string>& list) {
  std::string quiet;
  for (warning_description const& d : warning_descriptions()) {
    const double x = w.value(d.kind);
    if (std::isnan(d.limit) || std::isnan(x)) continue;
    const std::string value = words::value_in_unit(d, x), limit = words::value_in_unit(d, d.limit);
    if (w.raised(d.kind)) list.push_back(fmt::format("Warning: {} {}, limit {}: {}.", d.title, value, limit, d.meaning));
    else quiet += fmt::format("{}{} {} ({})", quiet.empty() ? "" : ", ", d.title, value, limit);
  }
  if (!quiet.empty()) list.push_back(fmt::format("Below their limits: {}.", quiet));
}

}  // namespace

std::vector<std::string> sentences_of(risk_report const& r) {
  std::vector<std::string> list;
  if (r.tensors > 0)
    list.push_back(fmt::format("Biased is a mean beyond {:.2f} standard errors over rows and columns (5 for one tensor, p = 5.7e-7, shared among the {} looked at; more for few rows); "
                               "wrong is a median error of rows of 1% or more.",
                               r.limit, r.tensors));
  add_warnings(r.warnings, list);
  if (r.tensors > 0 && r.findings.empty()) list.push_back(fmt::format("Nothing is biased or wrong in the {} tensors looked at.", r.tensors));
  for (finding const& f : r.findings) list.push_back(sentence(f));
  if (const std::string text = summary(r.findings); !text.empty()) list.push_back(text);
  std::string unbiased;
  std::string unjudged;
  for (unbiased_tensor const& u : r.unbiased)
    if (!std::isfinite(u.detectable_ulp)) unjudged += fmt::format("{}{}", unjudged.empty() ? "" : ", ", words::tensor(u.tensor));
    else unbiased += fmt::format("{}{} {:.2g} {}", unbiased.empty() ? "" : ", ", words::tensor(u.tensor), u.detectable_ulp, unit_of(u.tensor));
  if (!unbiased.empty()) list.push_back(fmt::format("No bias seen; it would have been, from a mean of this size on: {}.", unbiased));
  if (!unjudged.empty()) list.push_back(fmt::format("Too few rows to judge the mean of: {} (at p = 5.7e-7).", unjudged));
  return list;
}

}  // namespace stickybit
