#include "stickybit/bias/risk_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "risk_words.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/statistics.hpp"

namespace stickybit {
namespace {

constexpr double wrong_from = 0.01;       // relative error of a row
constexpr double small_below_bf16 = 0.01; // ulp

bool has_rows_judged(std::string_view tensor) { return tensor == "o" || tensor == "dq" || tensor == "dk" || tensor == "dv"; }

double significance(double mean, double standard_error) { return mean == 0 ? 0 : std::fabs(mean) / standard_error; }

double in_bf16_ulp(tensor_error const& e, double ulp) { return e.in_ulp_of == format::bf16 ? ulp : ulp * 0x1p-16; }

std::int64_t tensors_in(call_errors const& errors) {
  return std::ranges::count_if(bias_tensors, [&](std::string_view t) { return errors.find(t) != nullptr; });
}

std::int64_t columns_in(call_errors const& errors) {
  std::int64_t all = 0;
  for (std::string_view t : bias_tensors)
    if (tensor_error const* e = errors.find(t)) all += std::int64_t(e->columns.size());
  return all;
}

/// Columns whose mean is beyond the limit for so many looks, and the most significant of all.
struct column_scan {
  std::int64_t biased = 0;
  column_error const* worst = nullptr;
};
column_scan scan(tensor_error const& e, std::int64_t looks) {
  column_scan found;
  for (column_error const& c : e.columns) {
    const double here = significance(c.mean_ulp, c.standard_error_ulp), limit = limit_for(looks, double(c.positive + c.negative + c.zero - 1));
    if (!(here > limit)) continue;
    ++found.biased;
    if (found.worst == nullptr || here > significance(found.worst->mean_ulp, found.worst->standard_error_ulp)) found.worst = &c;
  }
  return found;
}

/// The finding's size under other errors of the same call.
finding_size size_in(finding const& f, tensor_error const& e, std::int64_t column_looks) {
  switch (f.kind) {
    case finding_kind::mean: return {e.mean_signed_error_ulp, uncertainty_of_mean(e).standard_error};
    case finding_kind::columns: return {double(scan(e, column_looks).biased), 0};
    case finding_kind::rows: return {e.median_relative_error, 0};
  }
  return {};
}

fix_effect effect_of(finding const& f, finding_size after) {
  const double before = std::fabs(f.before.value), left = std::fabs(after.value) + 2 * after.error;
  switch (f.kind) {
    case finding_kind::mean: return left <= before / 4 ? fix_effect::removes : left <= 0.75 * before ? fix_effect::lessens : fix_effect::none;
    case finding_kind::columns: return after.value == 0 ? fix_effect::removes : after.value <= before / 2 ? fix_effect::lessens : fix_effect::none;
    case finding_kind::rows: return after.value < wrong_from / 2 ? fix_effect::removes : after.value <= before / 2 ? fix_effect::lessens : fix_effect::none;
  }
  return fix_effect::none;
}

std::vector<std::string> worsened_by(call_errors const& before, call_errors const& after) {
  std::vector<std::string> list;
  for (std::string_view t : bias_tensors) {
    tensor_error const *x = before.find(t), *y = after.find(t);
    if (!has_rows_judged(t) || x == nullptr || y == nullptr) continue;
    if (y->median_relative_error > 1.1 * x->median_relative_error)
      list.push_back(fmt::format("{} {} to {}", words::tensor(t), words::percent(x->median_relative_error), words::percent(y->median_relative_error)));
  }
  return list;
}

void judge_fixes(finding& f, std::vector<std::string> const& candidates, std::vector<fix_trial> const& trials, call_errors const& before, std::int64_t column_looks) {
  for (std::string const& fix : candidates) {
    const auto trial = std::ranges::find(trials, fix, &fix_trial::fix);
    if (trial == trials.end()) continue;
    tensor_error const* e = trial->errors.find(f.tensor);
    if (e == nullptr) continue;
    tried_fix t{fix, size_in(f, *e, column_looks), fix_effect::none, worsened_by(before, trial->errors)};
    t.effect = effect_of(f, t.after);
    f.tried.push_back(std::move(t));
  }
  if (f.tried.empty()) return;
  f.effect = fix_effect::none;
  auto best = std::ranges::find(f.tried, fix_effect::removes, &tried_fix::effect);
  if (best == f.tried.end()) best = std::ranges::min_element(f.tried, {}, [](tried_fix const& t) { return std::fabs(t.after.value) + 2 * t.after.error; });
  f.effect = best->effect;
  if (f.effect != fix_effect::none) f.best = *best;
}

void take_floor(finding& f, call_reference const& reference, std::int64_t column_looks) {
  const call_errors rounded{.output = f.tensor == "o" ? std::optional(reference.error_of_rounded_output()) : std::nullopt,
                            .gradients = f.tensor != "o" && reference.has_gradients() ? std::optional(reference.error_of_rounded_gradients()) : std::nullopt};
  if (tensor_error const* e = rounded.find(f.tensor)) {
    f.floor = size_in(f, *e, column_looks);
    f.has_floor = true;
  }
}

bool is_o_found(std::vector<finding> const& findings) {
  return std::ranges::any_of(findings, [](finding const& f) { return f.tensor == "o" && !f.small; });
}

void attribute_o(attention_schedule const& schedule, call_reference const& reference, risk_inputs& inputs, engine how) {
  try {
    std::vector<point_share> shares;
    for (point_bias const& p : attribute_output(schedule, reference.problem(), inputs.errors.output->o, how).points)
      shares.push_back({std::string(name_of(p.point)), p.mean_signed_error_ulp, p.rms_error_ulp});
    inputs.shares.emplace("o", std::move(shares));
  } catch (unsupported_call const&) {
  }
}

}  // namespace

std::string_view name_of(finding_kind kind) noexcept { return std::array<std::string_view, 3>{"mean", "columns", "rows"}[std::size_t(kind)]; }
std::string_view name_of(fix_effect effect) noexcept { return std::array<std::string_view, 4>{"not_tried", "none", "lessens", "removes"}[std::size_t(effect)]; }

double limit_for(std::int64_t looks) noexcept {
  const double wanted = std::erfc(5 / std::sqrt(2.0)) / double(looks);
  double low = 5, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > wanted ? low : high) = middle;
  }
  return high;
}

double limit_for(std::int64_t looks, double freedom) noexcept {
  const double normal = limit_for(looks);
  if (!(2 * freedom * std::log(2.0) > normal * normal)) return std::numeric_limits<double>::infinity();
  const double z = normal * (8 * freedom + 3) / (8 * freedom + 1);
  return std::sqrt(freedom * std::expm1(z * z / freedom));
}

mean_uncertainty uncertainty_of_mean(tensor_error const& e) noexcept {
  running_moments columns;
  std::int64_t heads = 0;
  for (column_error const& c : e.columns) {
    if (c.ulp != 0) columns.add(c.mean_ulp);
    heads = std::max(heads, c.head + 1);
  }
  const double r = e.standard_error_ulp, rows = double(e.rows.size()) - 1;
  if (columns.count() <= heads) return {r, rows};
  const double c = columns.standard_error(), both = std::hypot(r, c);
  if (both == 0) return {0, rows};
  const double freedom = both * both * both * both / (r * r * r * r / std::max(1.0, rows) + c * c * c * c / double(columns.count() - 1));
  return {both, rows < 1 ? 0 : freedom};
}

double detectable_mean(tensor_error const& e, std::int64_t tensors) noexcept {
  const mean_uncertainty u = uncertainty_of_mean(e);
  const double limit = limit_for(tensors, u.freedom);
  return u.standard_error == 0 && std::isfinite(limit) ? 0 : limit * u.standard_error;
}

std::vector<finding> find_risks(call_errors const& errors) {
  std::vector<finding> all;
  const std::int64_t tensors = tensors_in(errors);
  if (tensors == 0) return all;
  const std::int64_t column_looks = std::max<std::int64_t>(1, columns_in(errors));
  for (std::string_view t : bias_tensors) {
    tensor_error const* e = errors.find(t);
    if (e == nullptr) continue;
    const column_scan columns = scan(*e, column_looks);
    finding f{.tensor = std::string(t)};
    const double standard_error = uncertainty_of_mean(*e).standard_error;
    if (e->mean_signed_error_ulp != 0 && std::fabs(e->mean_signed_error_ulp) > detectable_mean(*e, tensors)) {
      f.direction = e->mean_signed_error_ulp > 0 ? 1 : -1;
      f.before = {e->mean_signed_error_ulp, standard_error};
      f.significance = significance(e->mean_signed_error_ulp, standard_error);
      f.small = std::fabs(in_bf16_ulp(*e, e->mean_signed_error_ulp)) < small_below_bf16;
      all.push_back(f);
    } else if (columns.biased > 0 && e->columns.size() > 1) {
      f.kind = finding_kind::columns;
      f.before = {double(columns.biased), 0};
      f.of_columns = std::int64_t(e->columns.size());
      f.largest_column = columns.worst->mean_ulp;
      f.significance = significance(columns.worst->mean_ulp, columns.worst->standard_error_ulp);
      f.small = std::fabs(in_bf16_ulp(*e, f.largest_column)) < small_below_bf16;
      all.push_back(f);
    }
    if (has_rows_judged(t) && e->median_relative_error >= wrong_from)
      all.push_back({.tensor = std::string(t), .kind = finding_kind::rows, .before = {e->median_relative_error, 0}});
  }
  return all;
}

std::vector<std::string> candidate_fixes_for(finding const& f, risk_inputs const& inputs) {
  early_warnings const& w = inputs.warnings;
  if (f.small || f.tensor == "dp" || f.tensor == "ds") return {};
  const bool ties = w.raised(warning_kind::repeated_maxima);
  const auto part = [&](double x) { return x >= 0.1 * w.row_mass_over_dq; };
  std::vector<std::string> list;
  const auto add = [&](bool wanted, std::initializer_list<const char*> fixes) {
    for (const char* fix : fixes)
      if (wanted && std::ranges::find(list, fix) == list.end()) list.emplace_back(fix);
  };
  const bool of_forward = f.tensor == "o" || f.tensor == "dv";
  const std::string top = words::largest_share(inputs, f.tensor).point;
  add(of_forward && (top == "p_cast" || top == "row_sum"), {"two-row-sums"});
  add(of_forward && (top == "exp_argument" || w.raised(warning_kind::exponent_ulp)), {"subtract-first"});
  add(ties && (of_forward || f.tensor == "delta"), {"beta", "beta+two-row-sums"});
  const bool of_mass = f.tensor == "dq" || f.tensor == "dk";
  add(f.tensor == "delta" || (of_mass && part(w.row_mass_different_arithmetic)), {"delta-mma"});
  add(f.tensor == "delta" || (of_mass && part(w.row_mass_rounded_output)), {"delta-hilo", "delta-fp32"});
  add(of_mass && w.raised(warning_kind::key_mean_over_spread), {"k-smooth"});
  add(f.tensor == "delta" || of_mass, {"delta-pdp"});
  add(of_mass, {"gproj"});
  add(of_forward || f.tensor == "delta" || !w.raised(warning_kind::row_mass_over_dq), {"fp32"});
  return list;
}

risk_report report_risks(attention_schedule const& schedule, call_reference const& reference, risk_inputs inputs, engine how, progress const& progress_bar) {
  risk_report report;
  report.tensors = tensors_in(inputs.errors);
  report.warnings = inputs.warnings;
  if (report.tensors > 0) report.limit = limit_for(report.tensors);
  report.findings = find_risks(inputs.errors);
  const std::int64_t column_looks = std::max<std::int64_t>(1, columns_in(inputs.errors));
  if (is_o_found(report.findings) && !inputs.shares.contains("o")) attribute_o(schedule, reference, inputs, how);
  std::vector<std::string> fixes;
  for (finding const& f : report.findings)
    for (std::string const& fix : candidate_fixes_for(f, inputs))
      if (std::ranges::find(fixes, fix) == fixes.end()) fixes.push_back(fix);
  const std::vector<fix_trial> trials = try_fixes(schedule, reference, fixes, how, progress_bar);
  for (finding& f : report.findings) {
    f.cause = words::cause(f, inputs);
    if (const auto known = inputs.predicted.find(f.tensor); known != inputs.predicted.end()) f.predicted = known->second, f.has_prediction = true;
    if (f.small) continue;
    take_floor(f, reference, column_looks);
    judge_fixes(f, candidate_fixes_for(f, inputs), trials, inputs.errors, column_looks);
    if (const std::string_view cured = words::cured_by(f.best.fix); !cured.empty() && !inputs.shares.contains(f.tensor) && f.kind != finding_kind::rows)
      f.cause += fmt::format("{}{}", f.cause.empty() ? "" : "; ", cured);
  }
  for (std::string_view t : bias_tensors) {
    tensor_error const* e = inputs.errors.find(t);
    const bool biased = std::ranges::any_of(report.findings, [&](finding const& f) { return f.tensor == t && f.kind != finding_kind::rows; });
    if (e != nullptr && !biased) report.unbiased.push_back({std::string(t), detectable_mean(*e, report.tensors)});
  }
  report.sentences = sentences_of(report);
  return report;
}

}  // namespace stickybit
