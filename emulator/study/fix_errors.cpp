#include "stickybit/study/fix_errors.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <stdexcept>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/fix_costs.hpp"

namespace stickybit {
namespace {

/// NaN does not count, unless there is nothing else.
double larger(double a, double b) { return std::isnan(a) || b > a ? b : a; }

fix_errors worst_head(std::vector<gradient_errors> const& heads) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  fix_errors e{.dq_before_cast = nan, .dq = nan, .dk_before_cast = nan, .dk = nan};
  for (gradient_errors const& h : heads) {
    e.dq_before_cast = larger(e.dq_before_cast, h.dq_before_cast.median);
    e.dq = larger(e.dq, h.dq.median);
    e.dk_before_cast = larger(e.dk_before_cast, h.dk_before_cast.median);
    e.dk = larger(e.dk, h.dk.median);
  }
  return e;
}

std::size_t index_of(fix_table const& table, std::string_view fix) {
  const auto found = std::ranges::find(table.fixes, fix);
  if (found == table.fixes.end()) throw std::invalid_argument("a summary of fixes needs 'none' and 'gproj' among them, to compare with");
  return std::size_t(found - table.fixes.begin());
}

/// 0 over 0 is 1: neither errs. NaN where there is no gradient.
double ratio(double a, double b) { return a == b ? 1 : a / b; }

void raise(double& largest, double x) {
  if (x > largest) largest = x;
}

}  // namespace

measured_call::measured_call(std::string name_, attention_problem problem_, mask_alignment mask)
    : name(std::move(name_)), problem(std::move(problem_)), gradients(problem, mask), output(problem, mask) {}

double fix_errors::worst() const noexcept { return larger(dq, dk); }

study_fix parse_study_fix(attention_schedule const& schedule, std::string_view fixes) {
  study_fix result;
  std::string others;
  while (!fixes.empty()) {
    const std::size_t plus = fixes.find('+');
    const std::string_view one = fixes.substr(0, plus);
    if (one == "winner") result.winner = true;
    else others.append(others.empty() ? "" : "+").append(one);
    fixes = plus == fixes.npos ? std::string_view{} : fixes.substr(plus + 1);
  }
  result.schedule = with_fixes(schedule, others.empty() ? "none" : others);
  if (result.winner && (result.schedule.smooths_keys || result.schedule.backward.mass != row_mass::kept)) throw invalid_fix("fix winner: with gproj or k-smooth: expected one of them");
  return result;
}

fix_errors errors_of_fix(attention_schedule const& schedule, std::string_view fixes, measured_call const& call, engine how) {
  attention_problem const& p = call.problem;
  const study_fix fix = parse_study_fix(schedule, fixes);
  const forward_result forward = attention_forward(fix.schedule, p, how);
  fix_errors e = worst_head(fix.winner ? errors_with_winner(fix.schedule, p, forward, call.gradients, how) : errors_of_gradients(fix.schedule, p, forward, call.gradients, how));
  const tensor_error all = error_of_output(p, forward, call.output, false);
  e.o_bias_ulp = all.mean_signed_error_ulp;
  e.o_bias_error_ulp = all.standard_error_ulp;
  const bool any = call.output.count > 0;
  const tensor_error tied = any ? error_of_output(p, forward, call.output, true) : all;
  e.tied_bias_ulp = any ? tied.mean_signed_error_ulp : std::numeric_limits<double>::quiet_NaN();
  e.tied_bias_error_ulp = any ? tied.standard_error_ulp : std::numeric_limits<double>::quiet_NaN();
  return e;
}

std::vector<fix_errors> errors_of_fixes(attention_schedule const& schedule, std::vector<std::string> const& fixes, measured_call const& call, engine how) {
  std::vector<fix_errors> all(fixes.size());
  std::exception_ptr thrown;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < fixes.size(); ++i) try {
      all[i] = errors_of_fix(schedule, fixes[i], call, how);
    } catch (...) {
#pragma omp critical
      thrown = std::current_exception();
    }
  if (thrown) std::rethrow_exception(thrown);
  return all;
}

fix_errors errors_of_cast(measured_call const& call) { return worst_head(errors_of_cast(call.problem, call.gradients)); }

std::vector<std::string> const& candidate_fixes() {
  static const std::vector<std::string> fixes{"none",
                                              "beta",
                                              "subtract-first",
                                              "two-row-sums",
                                              "k-smooth",
                                              "delta-fp32",
                                              "delta-hilo",
                                              "delta-mma",
                                              "delta-pdp",
                                              "k-smooth+delta-fp32",
                                              "k-smooth+delta-mma",
                                              "k-smooth+delta-pdp",
                                              "winner",
                                              "winner+delta-hilo",
                                              "winner+delta-mma",
                                              "winner+delta-pdp",
                                              "gproj:weights=uniform,targets=dq",
                                              "gproj:weights=uniform",
                                              "gproj:targets=dq",
                                              "gproj:targets=dq+delta-hilo",
                                              "gproj",
                                              "gproj+k-smooth",
                                              "gproj+delta-mma",
                                              "fp32-backward",
                                              "fp32",
                                              "fp32:delta=pdp",
                                              "fp32+gproj"};
  return fixes;
}

std::size_t best_cheap_fix(fix_table const& table, std::size_t call) {
  const double limit = cost_of("gproj").products;
  const auto error = [&](std::size_t fix) { return table.errors[call][fix].worst(); };
  const auto cheap = [&](std::size_t fix) { return cost_of(table.fixes[fix]).products < limit; };
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t fix = 0; fix < table.fixes.size(); ++fix)
    if (cheap(fix) && error(fix) < least) least = error(fix);
  std::size_t best = index_of(table, "none");
  const auto dearer = [&](std::size_t a, std::size_t b) {
    const fix_cost x = cost_of(table.fixes[a]), y = cost_of(table.fixes[b]);
    return x.products != y.products ? x.products > y.products : x.bytes != y.bytes ? x.bytes > y.bytes : x.score_operations > y.score_operations;
  };
  bool found = !(error(best) > 1.1 * least);
  for (std::size_t fix = 0; fix < table.fixes.size(); ++fix) {
    if (!cheap(fix) || !(error(fix) <= 1.1 * least)) continue;
    if (!found || dearer(best, fix)) best = fix, found = true;
  }
  return best;
}

std::vector<fix_summary> summarize(fix_table const& table) {
  const std::size_t none = index_of(table, "none"), gproj = index_of(table, "gproj");
  std::vector<fix_summary> all;
  for (std::size_t fix = 0; fix < table.fixes.size(); ++fix) {
    fix_summary s{.fix = table.fixes[fix], .worst_call = ""};
    std::vector<double> errors;
    double largest_ratio = 0;
    for (std::size_t call = 0; call < table.calls.size(); ++call) {
      fix_errors const &e = table.errors[call][fix], &without = table.errors[call][none], &g = table.errors[call][gproj];
      if (std::isnan(e.worst())) continue;
      ++s.calls;
      errors.push_back(e.worst());
      raise(s.largest, e.worst());
      s.best_cheap += best_cheap_fix(table, call) == fix;
      s.above_one_percent += e.worst() > 0.01;
      s.worse_than_none += e.dq > 1.1 * without.dq || e.dk > 1.1 * without.dk;
      raise(s.dq_to_gproj, ratio(e.dq, g.dq));
      raise(s.dk_to_gproj, ratio(e.dk, g.dk));
      raise(s.dq_to_gproj_before_cast, ratio(e.dq_before_cast, g.dq_before_cast));
      raise(s.dk_to_gproj_before_cast, ratio(e.dk_before_cast, g.dk_before_cast));
      const double here = larger(ratio(e.dq, g.dq), ratio(e.dk, g.dk));
      s.beyond_twice_gproj += here > 2;
      if (here > largest_ratio) largest_ratio = here, s.worst_call = table.calls[call];
    }
    s.median = median(std::move(errors));
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace stickybit
