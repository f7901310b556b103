// Properties that compare two calls.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "property_parts.hpp"
#include "stickybit/attention/forward.hpp"

namespace stickybit::detail {
namespace {

bool prepare_unmasked(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  p.causal = false;
  return true;
}
bool prepare_causal(attention_problem& p, attention_schedule const&, study_random&) {
  if (p.keys < 2) return false;
  moderate(p);
  p.causal = true;
  return true;
}
/// Equal keys in aligned groups of 8: one step of every tensor core here takes a multiple of 8 products.
bool prepare_copies(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  p.causal = false;
  each_key(p, [&](auto b, auto h, auto j) { std::copy_n(p.k.begin() + std::int64_t(key_at(p, b, h, j / 8 * 8, 0)), p.head_dim, p.k.begin() + std::int64_t(key_at(p, b, h, j, 0))); });
  return true;
}
/// Whole scores; the last column is for the shift.
bool prepare_shift(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  p.softmax_scale = 0.125;
  for (auto* codes : {&p.q, &p.k})
    for (bf16_code& c : *codes) c = bf16_of(std::clamp(std::nearbyint(to_double(c)), -4.0, 4.0));
  each_query(p, [&](auto b, auto h, auto i) { p.q[query_at(p, b, h, i, p.head_dim - 1)] = bf16_of(1); });
  each_key(p, [&](auto b, auto h, auto j) { p.k[key_at(p, b, h, j, p.head_dim - 1)] = bf16_code::zero(); });
  return true;
}
bool prepare_heads(attention_problem& p, attention_schedule const&, study_random&) { return p.batch * p.heads > 1; }
bool prepare_rows(attention_problem& p, attention_schedule const&, study_random&) {
  p.causal = false;
  return p.queries > 1;
}

/// O of two runs, row by row; rows that `skip` names are passed over. Numbers below 2^-100 are equal to 0.
template <class Skip>
property_outcome compare_outputs(attention_problem const& p, kernel_results const& base, kernel_results const& other, double times, const char* when, Skip skip) {
  tally found;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::vector<double> largest = largest_values(p, b, p.key_head_of(h));
      for (std::int64_t i = 0; i < p.queries; ++i) {
        if (skip(i)) continue;
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          const std::size_t at = query_at(p, b, h, i, c);
          const double x = to_double(base.o[at]) * times, y = to_double(other.o[at]);
          if (x == y || (std::isnan(x) && std::isnan(y)) || (std::fabs(x) < 0x1p-100 && std::fabs(y) < 0x1p-100)) continue;
          found.deviate(std::fabs(x - y) / (0x1p-6 * std::max(largest[std::size_t(c)] * times, 0x1p-100)), "o", std::int64_t(at),
                        [&] { return fmt::format("o[{}] = {:.9g} {}, {:.9g} without", at, y, when, x); });
        }
      }
    }
  return found.outcome();
}
constexpr auto no_row = [](std::int64_t) { return false; };

property_outcome judge_key_copies(property_call const& call) {
  attention_problem other = call.problem;
  each_key(other, [&](auto b, auto h, auto j) {
    const std::int64_t first = j / 8 * 8, from = first + (std::min(first + 8, other.keys) - 1 - j);
    std::copy_n(call.problem.v.begin() + std::int64_t(key_at(other, b, h, from, 0)), other.head_dim, other.v.begin() + std::int64_t(key_at(other, b, h, j, 0)));
  });
  return compare_outputs(call.problem, call.kernel.run(call.problem, false), call.kernel.run(other, false), 1, "with equal keys' V in another order", no_row);
}

property_outcome judge_key_order(property_call const& call) {
  attention_problem const& p = call.problem;
  attention_problem other = p;
  study_random random(call.seed);
  const std::vector<std::int64_t> order = random.permutation(p.keys);
  each_key(p, [&](auto b, auto h, auto j) {
    const auto from = std::int64_t(key_at(p, b, h, order[std::size_t(j)], 0)), to = std::int64_t(key_at(p, b, h, j, 0));
    std::copy_n(p.k.begin() + from, p.head_dim, other.k.begin() + to);
    std::copy_n(p.v.begin() + from, p.head_dim, other.v.begin() + to);
  });
  return compare_outputs(p, call.kernel.run(p, false), call.kernel.run(other, false), 1, "with the keys in another order", no_row);
}

property_outcome judge_values_scaled(property_call const& call) {
  attention_problem other = call.problem;
  const int k = call.seed % 2 == 0 ? 5 : -7;
  for (bf16_code& c : other.v) c = scaled(c, k);
  return compare_outputs(call.problem, call.kernel.run(call.problem, false), call.kernel.run(other, false), std::ldexp(1, k), "with V times a power of two", no_row);
}

property_outcome judge_scores_scaled(property_call const& call) {
  attention_problem other = call.problem;
  const int k = call.seed % 2 == 0 ? 3 : -4;
  for (bf16_code& c : other.q) c = scaled(c, k);
  other.softmax_scale = std::ldexp(other.softmax_scale, -k);
  return compare_outputs(call.problem, call.kernel.run(call.problem, false), call.kernel.run(other, false), 1, "with Q times a power of two and the scale divided by it", no_row);
}

property_outcome judge_shift(property_call const& call) {
  attention_problem const& p = call.problem;
  attention_problem other = p;
  const double shift = call.seed % 2 == 0 ? 512 : -768;
  each_key(p, [&](auto b, auto h, auto j) { other.k[key_at(p, b, h, j, p.head_dim - 1)] = bf16_of(shift); });
  return compare_outputs(p, call.kernel.run(p, false), call.kernel.run(other, false), 1, "with every score shifted by the same number", no_row);
}

/// K and V of the later half of the keys replaced.
attention_problem with_other_future(property_call const& call, std::int64_t from, bool specials) {
  attention_problem other = call.problem;
  study_random random(call.seed);
  each_key(other, [&](auto b, auto h, auto j) {
    for (std::int64_t c = 0; c < other.head_dim && j >= from; ++c) {
      const std::size_t at = key_at(other, b, h, j, c);
      other.k[at] = specials && one_in(random, 9) ? bf16_code::nan() : bf16_of(8 * bell(random));
      other.v[at] = specials && one_in(random, 3) ? (one_in(random, 2) ? bf16_code::infinity() : bf16_code::nan()) : bf16_of(8 * bell(random));
    }
  });
  return other;
}
property_outcome judge_future_with(property_call const& call, bool specials, const char* words) {
  attention_problem const& p = call.problem;
  const std::int64_t from = 1 + std::int64_t(call.seed % std::uint64_t(p.keys - 1));
  const auto sees = [&](std::int64_t i) { return visible(call.schedule, p, i) > from; };
  const kernel_results a = call.kernel.run(p, false), b = call.kernel.run(with_other_future(call, from, specials), false);
  property_outcome outcome = compare_outputs(p, a, b, 1, words, sees);
  for (std::size_t r = 0; r < a.lse.size() && outcome.exact; ++r)
    if (!sees(std::int64_t(r) % p.queries) && a.lse[r] != b.lse[r]) {
      outcome.exact = false;
      outcome.deviation = 1e9;
      outcome.tensor = "lse";
      outcome.index = std::int64_t(r);
      outcome.what = fmt::format("lse[{}] is another {}", r, words);
    }
  return outcome;
}
property_outcome judge_future(property_call const& call) { return judge_future_with(call, false, "with other keys that the row does not see"); }
property_outcome judge_masked_nan(property_call const& call) { return judge_future_with(call, true, "with NaN and infinities in keys that the row does not see"); }

property_outcome judge_heads(property_call const& call) {
  attention_problem const& p = call.problem;
  study_random random(call.seed);
  const std::int64_t b = random.below(p.batch), h = random.below(p.heads), kh = p.key_head_of(h);
  attention_problem one = p;
  one.batch = one.heads = one.key_heads = 1;
  one.call_heads = 0;
  size_tensors(one, false);
  for (std::int64_t c = 0; c < p.head_dim; ++c) {
    for (std::int64_t i = 0; i < p.queries; ++i) one.q[query_at(one, 0, 0, i, c)] = p.q[query_at(p, b, h, i, c)];
    for (std::int64_t j = 0; j < p.keys; ++j) {
      one.k[key_at(one, 0, 0, j, c)] = p.k[key_at(p, b, kh, j, c)];
      one.v[key_at(one, 0, 0, j, c)] = p.v[key_at(p, b, kh, j, c)];
    }
  }
  const kernel_results whole = call.kernel.run(p, false), alone = call.kernel.run(one, false);
  kernel_results part;
  for (std::int64_t i = 0; i < p.queries; ++i)
    for (std::int64_t c = 0; c < p.head_dim; ++c) part.o.push_back(whole.o[query_at(p, b, h, i, c)]);
  if (!whole.lse.empty()) part.lse.assign(whole.lse.begin() + (b * p.heads + h) * p.queries, whole.lse.begin() + (b * p.heads + h + 1) * p.queries);
  return compare_results(part, alone, fmt::format("head {} of batch element {} alone", h, b));
}

property_outcome judge_rows(property_call const& call) {
  attention_problem const& p = call.problem;
  attention_problem half = p;
  keep_queries(half, (p.queries + 1) / 2);
  const kernel_results whole = call.kernel.run(p, false), alone = call.kernel.run(half, false);
  kernel_results part;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t i = 0; i < half.queries; ++i)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t c = 0; c < p.head_dim; ++c) part.o.push_back(whole.o[query_at(p, b, h, i, c)]);
  return compare_results(part, {alone.o, {}, {}, {}, {}}, "the same rows without the others");
}

}  // namespace

void append_relation_properties(std::vector<attention_property>& all) {
  constexpr std::string_view moderate_domain = "numbers 0 or between 2^-20 and 2^20, scores up to 1024";
  constexpr std::string_view of_values = "2^-6 of the largest |V|";
  all.insert(all.end(), {
    {"key-copies", "keys whose K are equal may change their V with each other: O stays", "not causal; equal K in groups of 8 keys", of_values, false, prepare_copies, judge_key_copies},
    {"key-order", "keys in another order give the same O", "not causal; scores up to 1024", of_values, false, prepare_unmasked, judge_key_order},
    {"values-scaled", "V times a power of two gives O times it", moderate_domain, of_values, false, prepare_moderate, judge_values_scaled},
    {"scores-scaled", "Q times a power of two and the scale divided by it give the same O", moderate_domain, of_values, false, prepare_moderate, judge_scores_scaled},
    {"score-shift", "the same number added to every score of a row gives the same O", "whole scores, scale 1/8, a shift of 512 or -768", of_values, false, prepare_shift, judge_shift},
    {"causal-future", "O and lse of a row do not depend on keys that it does not see", "causal; finite numbers", "2^-6 of the largest |V|; none for lse", false, prepare_causal, judge_future},
    {"masked-nan", "NaN and infinities in keys that a row does not see do not reach it", "causal", "none", false, prepare_causal, judge_masked_nan},
    {"head-independence", "a head of a batch element has the results of the call of that head alone", "several heads or batch elements", "none", false, prepare_heads, judge_heads},
    {"row-independence", "a row has the O of a call of fewer rows", "not causal; two rows at least", "none", false, prepare_rows, judge_rows},
  });
}

}  // namespace stickybit::detail
