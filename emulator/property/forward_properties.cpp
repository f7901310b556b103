// Properties of one forward call.
#include <fmt/format.h>

#include <algorithm>

#include "property_parts.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/exact/round_to.hpp"

namespace stickybit::detail {
namespace {

bool prepare_ones(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  for (bf16_code& c : p.v) c = bf16_of(1);
  return true;
}
bool prepare_identity(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  keep_keys(p, p.head_dim);
  for (bf16_code& c : p.v) c = bf16_code::zero();
  each_key(p, [&](auto b, auto h, auto j) { p.v[key_at(p, b, h, j, j)] = bf16_of(1); });
  return true;
}
bool prepare_one_key(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  keep_keys(p, 1);
  return true;
}

/// Every element of O of a row that sees a key: f(o, b, h, i, c, index).
template <class F>
void each_output(property_call const& call, kernel_results const& r, F f) {
  attention_problem const& p = call.problem;
  each_query(p, [&](auto b, auto h, auto i) {
    if (visible(call.schedule, p, i) == 0) return;
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const std::size_t at = query_at(p, b, h, i, c);
      f(to_double(r.o[at]), b, h, i, c, std::int64_t(at));
    }
  });
}

property_outcome judge_value_one(property_call const& call) {
  tally found;
  each_output(call, call.kernel.run(call.problem, false), [&](double o, auto, auto, auto, auto, std::int64_t at) {
    if (o != 1) found.deviate(std::fabs(o - 1) / 0x1p-7, "o", at, [&] { return fmt::format("o[{}] = {} where every V is 1", at, o); });
  });
  return found.outcome();
}

void take_range(property_call const& call, attention_problem const& p, const char* words, tally& found) {
  each_output({call.kernel, call.schedule, p, call.seed}, call.kernel.run(p, false), [&](double o, auto b, auto h, auto i, auto c, std::int64_t at) {
    double least = INFINITY, most = -INFINITY;
    for (std::int64_t j = 0; j < visible(call.schedule, p, i); ++j) {
      const double v = to_double(p.v[key_at(p, b, p.key_head_of(h), j, c)]);
      least = std::min(least, v);
      most = std::max(most, v);
    }
    if (o >= least && o <= most) return;
    const double beyond = o < least ? least - o : o - most, unit = 0x1p-7 * std::max({std::fabs(least), std::fabs(most), 0x1p-100});
    found.deviate(beyond / unit, "o", at, [&] { return fmt::format("o[{}] = {:.9g}{}, but the V that its row sees lie between {:.9g} and {:.9g}", at, o, words, least, most); });
  });
}

/// The call, and the same with V = 1, where the interval is a point.
property_outcome judge_value_range(property_call const& call) {
  tally found;
  take_range(call, call.problem, "", found);
  attention_problem ones = call.problem;
  for (bf16_code& c : ones.v) c = bf16_of(1);
  take_range(call, ones, " with V = 1", found);
  return found.outcome();
}

property_outcome judge_one_key(property_call const& call) {
  attention_problem const& p = call.problem;
  if (p.keys != 1) return tally::none();
  tally found;
  each_output(call, call.kernel.run(p, false), [&](double o, auto b, auto h, auto, auto c, std::int64_t at) {
    const double v = to_double(p.v[key_at(p, b, p.key_head_of(h), 0, c)]);
    if (o != v) found.deviate(std::fabs(o - v) / (0x1p-7 * std::max(std::fabs(v), 0x1p-100)), "o", at, [&] { return fmt::format("o[{}] = {:.9g}, but the only key has V = {:.9g}", at, o, v); });
  });
  return found.outcome();
}

property_outcome judge_weights(property_call const& call) {
  attention_problem const& p = call.problem;
  if (p.keys > p.head_dim) return tally::none();
  const kernel_results r = call.kernel.run(p, false);
  tally found;
  each_query(p, [&](auto b, auto h, auto i) {
    if (visible(call.schedule, p, i) == 0) return;
    double sum = 0;
    for (std::int64_t c = 0; c < p.head_dim; ++c) sum += to_double(r.o[query_at(p, b, h, i, c)]);
    if (sum != 1)
      found.deviate(std::fabs(sum - 1) / 0x1p-7, "o", std::int64_t(query_at(p, b, h, i, 0)), [&] { return fmt::format("the weights of batch {}, head {}, row {} sum to {:.9g}", b, h, i, sum); });
  });
  return found.outcome();
}

/// Σ_j P_ij |V_jc|, exactly: what a relative error of P or of O amounts to.
attention_problem with_magnitudes(attention_problem p) {
  for (bf16_code& c : p.v) c = bf16_code::from_bits(c.to_bits() & bf16_code::magnitude_mask);
  return p;
}

property_outcome judge_near_exact(property_call const& call) {
  attention_problem const& p = call.problem;
  if (!(p.softmax_scale > 0)) return tally::none();
  const kernel_results r = call.kernel.run(p, false);
  const attention_problem magnitudes = with_magnitudes(p);
  const mask_alignment mask = mask_of(call.schedule, p);
  tally found;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const exact_rows exact = exact_head(p, mask, b, h).evaluate(), bound = exact_head(magnitudes, mask, b, h).evaluate();
      for (std::int64_t i = 0; i < p.queries; ++i)
        for (std::int64_t c = 0; c < p.head_dim && exact.without_keys[std::size_t(i)] == 0; ++c) {
          const std::size_t at = query_at(p, b, h, i, c), of_head = std::size_t(i * p.head_dim + c);
          if (r.o[at].to_bits() == round_to<format::bf16>(exact.o[of_head]).to_bits()) continue;
          const double o = to_double(r.o[at]), x = exact.o[of_head].hi, unit = 0x1p-6 * std::max(bound.o[of_head].hi, 0x1p-100);
          found.deviate(std::fabs(o - x) / unit, "o", std::int64_t(at), [&] { return fmt::format("o[{}] = {:.9g}, exactly {:.9g}: {:.3g} of the tolerance", at, o, x, std::fabs(o - x) / unit); });
        }
    }
  return found.outcome();
}

property_outcome judge_lse(property_call const& call) {
  attention_problem const& p = call.problem;
  if (!(p.softmax_scale > 0)) return tally::none();
  const kernel_results r = call.kernel.run(p, false);
  if (r.lse.empty()) return tally::none();
  const mask_alignment mask = mask_of(call.schedule, p);
  tally found;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const exact_rows exact = exact_head(p, mask, b, h).evaluate();
      for (std::int64_t i = 0; i < p.queries; ++i) {
        if (exact.without_keys[std::size_t(i)] != 0) continue;
        const std::int64_t at = (b * p.heads + h) * p.queries + i;
        const double lse = to_double(r.lse[std::size_t(at)]), x = exact.lse[std::size_t(i)].hi;
        if (r.lse[std::size_t(at)].to_bits() == round_to<format::f32>(exact.lse[std::size_t(i)]).to_bits()) continue;
        double scores = 1;
        for (std::int64_t c = 0; c < p.head_dim; ++c) scores += std::fabs(to_double(p.q[query_at(p, b, h, i, c)]));
        double k = 0;
        for (bf16_code code : p.k) k = std::max(k, std::fabs(to_double(code)));
        const double unit = 0x1p-18 * std::max(1.0, scores * k * p.softmax_scale);
        found.deviate(std::fabs(lse - x) / unit, "lse", at, [&] { return fmt::format("lse[{}] = {:.9g}, exactly {:.9g}", at, lse, x); });
      }
    }
  return found.outcome();
}

}  // namespace

void append_forward_properties(std::vector<attention_property>& all) {
  constexpr std::string_view moderate_domain = "numbers 0 or between 2^-20 and 2^20, scores up to 1024";
  all.insert(all.end(), {
    {"near-exact", "each element of O is the mathematical value, rounded once", moderate_domain, "2^-6 (4 ulp of BF16 at least) of sum_j P |V|", false, prepare_moderate, judge_near_exact},
    {"lse-near-exact", "each lse is the mathematical value, rounded once", moderate_domain, "2^-18 of max(1, largest possible score)", false, prepare_moderate, judge_lse},
    {"weights-sum-to-one", "with V the unit vectors, O is the row of weights; its sum is 1", "as many keys as columns at most; scores up to 1024", "2^-7", false, prepare_identity, judge_weights},
    {"value-one", "V = 1 gives O = 1", "scores up to 1024", "2^-7", false, prepare_ones, judge_value_one},
    {"value-range", "O lies inside [min V, max V] of the keys that its row sees", moderate_domain, "2^-7 of the largest |V|", false, prepare_moderate, judge_value_range},
    {"one-key", "one key gives O = V", "one key; V 0 or between 2^-20 and 2^20", "2^-7 of |V|", false, prepare_one_key, judge_one_key},
  });
}

}  // namespace stickybit::detail
