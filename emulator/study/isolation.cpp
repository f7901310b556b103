#include "stickybit/study/isolation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/call_reference.hpp"
#include "stickybit/bias/risk_report.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

/// One tile of all keys, whatever the head dimension.
constexpr std::array whole_forward{attention_tile{.head_dim = 1 << 20, .causal = false, .query_rows = 1, .key_columns = 0},
                                   attention_tile{.head_dim = 1 << 20, .causal = true, .query_rows = 1, .key_columns = 0}};
constexpr std::array whole_backward{attention_tile{.head_dim = 1 << 20, .causal = false, .query_rows = 0, .key_columns = 0},
                                    attention_tile{.head_dim = 1 << 20, .causal = true, .query_rows = 0, .key_columns = 0}};

/// A schedule and what its backward pass starts from.
struct experiment {
  attention_schedule schedule;
  forward_result forward;
};

/// PK of every query row in exact weights, [b, h, s, d]; 0 where the weights are not determined.
std::vector<double> weighted_keys(call_reference const& reference) {
  attention_problem const& p = reference.problem();
  const auto d = std::size_t(p.head_dim);
  std::vector<double> all(std::size_t(p.batch * p.heads * p.queries) * d);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      exact_gradients const& exact = reference.gradients(b, head);
      const bf16_rows k = rows_of_head(p, b, head).k;
#pragma omp parallel
      {
        const host::ieee_environment ieee;
        std::vector<double_double> weights(std::size_t(p.keys)), dp(weights.size()), ds(weights.size()), dq(d);
#pragma omp for schedule(dynamic, 8)
        for (std::int64_t row = 0; row < p.queries; ++row) {
          const gradient_row r = exact.evaluate_row(std::size_t(row), weights, dp, ds, dq);
          double* keys = all.data() + std::size_t((b * p.heads + head) * p.queries + row) * d;
          for (std::size_t j = 0; j < r.visible && r.softmax_determined; ++j)
            for (std::size_t c = 0; c < d; ++c) keys[c] += weights[j].hi * to_double(k.row(j)[c]);
        }
      }
    }
  return all;
}

/// O with P V taken without error from the FP32 P and rounded once to FP32: o_f32, and its cast.
forward_result with_exact_product(attention_schedule const& schedule, attention_problem const& p, forward_result forward) {
  rounding_points points = rounding_points::all();
  for (rounding_point point : {rounding_point::p_cast, rounding_point::pv, rounding_point::o_bar_cast, rounding_point::o_cast}) points = points.without(point);
  forward.o_f32.resize(p.q.size());
  static_cast<void>(selective_output(schedule, p));  // throws here, not inside the parallel region
#pragma omp parallel
  {
    const host::ieee_environment ieee;
    selective_output output(schedule, p);
#pragma omp for schedule(dynamic, 8) collapse(3)
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t head = 0; head < p.heads; ++head)
        for (std::int64_t row = 0; row < p.queries; ++row) {
          const auto at = std::size_t(p.query_strides().offset(b, head, row));
          const std::vector<double_double> o = output.row(b, head, row, points);
          for (std::size_t c = 0; c < o.size(); ++c) {
            forward.o_f32[at + c] = round_to<format::f32>(o[c]);
            forward.o[at + c] = round_to<format::bf16>({to_double(forward.o_f32[at + c]), 0});
          }
        }
  }
  return forward;
}

/// Makes the experiments of one call; the kernel's own forward pass, and that in FP32, are computed once.
class laboratory {
 public:
  laboratory(attention_schedule const& schedule, attention_problem const& p, engine how)
      : schedule_(schedule), p_(p), how_(how), kernel_(attention_forward(schedule, p, how)), fp32_(attention_forward(with_fixes(schedule, "fp32"), p, how)) {}

  [[nodiscard]] experiment make(isolation_kind kind, std::vector<std::int64_t> const& chosen) const {
    attention_schedule s = schedule_;
    switch (kind) {
      case isolation_kind::unchanged: return {s, kernel_};
      case isolation_kind::whole_tile:
        s.forward_tiles = whole_forward;
        s.split_tiles = whole_forward;
        s.backward_tiles = whole_backward;
        s.rules.split = split_rule::none;
        return {s, attention_forward(s, p_, how_)};
      case isolation_kind::standard_attention:
        s = attention_schedule_named("eager-bf16");
        s.causal_mask = schedule_.causal_mask;
        return {s, attention_forward(s, p_, how_)};
      case isolation_kind::delta_of_p_dp: s.backward.delta = delta_sum::weighted_dp; return {s, kernel_};
      case isolation_kind::delta_of_fp32_o: {
        forward_result f = kernel_;
        f.o_f32 = fp32_.o_f32;
        return {of_fp32_output(s), std::move(f)};
      }
      case isolation_kind::forward_in_fp32: return {of_fp32_output(s), fp32_};
      case isolation_kind::heads_in_fp32: return {of_fp32_output(s), chosen_heads(chosen)};
      case isolation_kind::product_in_fp32: return {of_fp32_output(s), with_exact_product(schedule_, p_, kernel_)};
      case isolation_kind::product_then_rounded: return {s, with_exact_product(schedule_, p_, kernel_)};
    }
    throw std::invalid_argument("isolation: unknown preset");
  }

 private:
  static attention_schedule of_fp32_output(attention_schedule s) {
    s.backward.delta_from = delta_source::fp32_output;
    return s;
  }

  /// The kernel's BF16 O as FP32 in all heads but the chosen ones: there delta keeps every bit.
  forward_result chosen_heads(std::vector<std::int64_t> const& chosen) const {
    forward_result f = kernel_;
    f.o_f32.resize(f.o.size());
    for (std::int64_t b = 0; b < p_.batch; ++b)
      for (std::int64_t head = 0; head < p_.heads; ++head) {
        const bool exact = std::ranges::find(chosen, b * p_.heads + head) != chosen.end();
        for (std::int64_t row = 0; row < p_.queries; ++row)
          for (std::int64_t c = 0; c < p_.head_dim; ++c) {
            const auto at = std::size_t(p_.query_strides().offset(b, head, row) + c);
            f.o_f32[at] = exact ? fp32_.o_f32[at] : widen(f.o[at]);
          }
      }
    return f;
  }

  attention_schedule schedule_;
  attention_problem const& p_;
  engine how_;
  forward_result kernel_, fp32_;
};

/// What errors of delta, O and dQ are measured against, once for all presets.
struct yardstick {
  call_reference const& reference;
  std::vector<double> weighted_keys;  ///< [b, h, s, d]

  [[nodiscard]] isolation_errors measure(std::vector<std::int64_t> const& heads, forward_result const& forward, backward_result const& g) const;

 private:
  void add_dq(std::int64_t b, std::int64_t head, backward_result const& g, isolation_errors& e, std::array<double, 3>& squares, std::vector<double>& relative) const;
};

/// @param squares  sums of squares of the error along PK, of the whole error, of the coefficients
void yardstick::add_dq(std::int64_t b, std::int64_t head, backward_result const& g, isolation_errors& e, std::array<double, 3>& squares, std::vector<double>& relative) const {
  attention_problem const& p = reference.problem();
  const auto d = std::size_t(p.head_dim);
  head_gradients const& exact = reference.values(b, head);
  for (std::int64_t row = 0; row < p.queries; ++row) {
    double along = 0, keys = 0, error = 0, norm = 0;
    for (std::size_t c = 0; c < d; ++c) {
      const double_double x = exact.dq[std::size_t(row) * d + c];
      const double wrong = to_double(double_double{to_double(g.dq[std::size_t(p.query_strides().offset(b, head, row)) + c]), 0} - x);
      const double key = weighted_keys[std::size_t((b * p.heads + head) * p.queries + row) * d + c];
      along += wrong * key;
      keys += key * key;
      error += wrong * wrong;
      norm += x.hi * x.hi;
    }
    if (!std::isfinite(error) || !std::isfinite(along)) continue;
    if (norm > 0) relative.push_back(std::sqrt(error / norm));
    if (keys == 0) continue;
    const double coefficient = along / (p.softmax_scale * keys);
    squares[0] += along * along / keys;
    squares[1] += error;
    squares[2] += coefficient * coefficient;
    e.sum_of_coefficients += coefficient;
  }
}

isolation_errors yardstick::measure(std::vector<std::int64_t> const& heads, forward_result const& forward, backward_result const& g) const {
  attention_problem const& p = reference.problem();
  isolation_errors e;
  error_samples delta(std::ssize(heads), p.queries, 1), o(std::ssize(heads), p.queries, p.head_dim);
  std::array<double, 3> squares{};
  std::vector<double> relative;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::int64_t b = heads[i] / p.heads, head = heads[i] % p.heads;
    head_gradients const& exact = reference.values(b, head);
    for (std::int64_t row = 0; row < p.queries; ++row) {
      if (exact.without_keys[std::size_t(row)] != 0) continue;
      const auto put = [](error_samples& to, std::size_t at, double value, double_double x) {
        to.exact[at] = x.hi;
        if (std::isfinite(value) && std::isfinite(x.hi)) to.error[at] = to_double(double_double{value, 0} - x);
      };
      put(delta, delta.at(std::int64_t(i), row, 0), to_double(g.delta[std::size_t(heads[i] * p.queries + row)]), exact.delta[std::size_t(row)]);
      for (std::int64_t c = 0; c < p.head_dim; ++c)
        put(o, o.at(std::int64_t(i), row, c), to_double(forward.o[std::size_t(p.query_strides().offset(b, head, row) + c)]), reference.output(b, head)[std::size_t(row * p.head_dim + c)]);
    }
    add_dq(b, head, g, e, squares, relative);
  }
  const tensor_error of_delta = summarize(delta, format::f32), of_o = summarize(o, format::bf16);
  e.rows = of_delta.counted;
  e.delta_mean_ulp = of_delta.mean_signed_error_ulp;
  e.delta_standard_error_ulp = of_delta.standard_error_ulp;
  e.positive = of_delta.positive;
  e.negative = of_delta.negative;
  e.sign_test = of_delta.row_sign_test;
  e.along_pk = squares[1] > 0 ? squares[0] / squares[1] : 0;
  e.walks = squares[2] > 0 ? e.sum_of_coefficients / std::sqrt(squares[2]) : 0;
  e.dq_relative_error = median(std::move(relative));
  e.o_mean_ulp = of_o.mean_signed_error_ulp;
  e.o_standard_error_ulp = of_o.standard_error_ulp;
  return e;
}

bool is_biased(isolation_errors const& e) {
  return std::fabs(e.delta_mean_ulp) > limit_for(std::ssize(isolation_presets())) * e.delta_standard_error_ulp && e.delta_mean_ulp != 0;
}

isolation_verdict verdict_of(isolation_kind kind, isolation_errors const& unchanged, isolation_errors const& now) {
  if (!is_biased(unchanged)) return isolation_verdict::nothing_to_cure;
  if (kind == isolation_kind::unchanged) return isolation_verdict::biased;
  const double quarter = std::fabs(unchanged.delta_mean_ulp) / 4, size = std::fabs(now.delta_mean_ulp);
  if (size + 2 * now.delta_standard_error_ulp <= quarter) return isolation_verdict::cured;
  return size >= quarter && is_biased(now) ? isolation_verdict::still_biased : isolation_verdict::unclear;
}

std::vector<std::int64_t> all_heads(attention_problem const& p) {
  std::vector<std::int64_t> heads(std::size_t(p.batch * p.heads));
  for (std::size_t i = 0; i < heads.size(); ++i) heads[i] = std::int64_t(i);
  return heads;
}

std::vector<std::int64_t> heads_to_choose(isolation_result const& unchanged) {
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < unchanged.heads.size(); ++i)
    if (is_biased(unchanged.heads[i])) chosen.push_back(std::int64_t(i));
  return chosen.empty() ? std::vector<std::int64_t>{0} : chosen;
}

void require_call(attention_schedule const& schedule, attention_problem const& p, std::vector<std::int64_t> const& heads) {
  if (schedule.kind != schedule_kind::online) throw unsupported_call(fmt::format("the isolation experiments are for kernels that go block by block, not for schedule {}", schedule.name));
  static_cast<void>(dq_blocks(schedule, p));
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("isolation: the call has no dO: expected a tensor 'do' of q's shape");
  for (std::int64_t head : heads)
    if (head < 0 || head >= p.batch * p.heads) throw std::invalid_argument(fmt::format("isolation: no head {}: expected 0 to {}", head, p.batch * p.heads - 1));
}

}  // namespace

std::vector<isolation_result> isolate(attention_schedule const& schedule, attention_problem const& p, std::vector<std::int64_t> chosen, engine how, progress const& report) {
  require_call(schedule, p, chosen);
  std::ranges::sort(chosen);
  chosen.erase(std::ranges::unique(chosen).begin(), chosen.end());  // a head named twice is one
  const call_reference reference(p, mask_of(schedule, p));
  const yardstick measure{reference, weighted_keys(reference)};
  const laboratory lab(schedule, p, how);
  const std::vector<std::int64_t> heads = all_heads(p);
  std::vector<isolation_result> results;
  for (isolation_preset const& preset : isolation_presets()) {
    isolation_result r;
    r.preset = &preset;
    try {
      const experiment made = lab.make(preset.kind, chosen);
      backward_options options;
      options.how = how;
      const backward_result g = attention_backward(made.schedule, p, made.forward, options);
      r.all = measure.measure(heads, made.forward, g);
      for (std::int64_t head : heads) r.heads.push_back(measure.measure({head}, made.forward, g));
      if (results.empty() && chosen.empty()) chosen = heads_to_choose(r);
      isolation_errors before = results.empty() ? r.all : results.front().all, after = r.all;
      if (preset.kind == isolation_kind::heads_in_fp32) {
        std::vector<std::int64_t> others;
        std::ranges::copy_if(heads, std::back_inserter(others), [&](std::int64_t h) { return std::ranges::find(chosen, h) == chosen.end(); });
        const experiment unchanged = lab.make(isolation_kind::unchanged, {});
        before = measure.measure(chosen, unchanged.forward, attention_backward(unchanged.schedule, p, unchanged.forward, options));
        r.chosen = chosen;
        after = r.of_chosen = measure.measure(chosen, made.forward, g);
        if (!others.empty()) r.of_others = measure.measure(others, made.forward, g);
      }
      r.verdict = verdict_of(preset.kind, before, after);
    } catch (unsupported_call const& e) {
      r.reason = e.what();
    }
    results.push_back(std::move(r));
    if (report) report(std::ssize(results), std::ssize(isolation_presets()));
  }
  return results;
}

}  // namespace stickybit
