// Properties of the backward pass.
#include <fmt/format.h>

#include <algorithm>

#include "property_parts.hpp"
#include "stickybit/attention/backward.hpp"

namespace stickybit::detail {
namespace {

bool prepare_constant_column(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  each_key(p, [&](auto b, auto h, auto j) { p.k[key_at(p, b, h, j, 0)] = bf16_of(1); });
  return true;
}
bool prepare_offset(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  p.softmax_scale = 0.125;
  for (auto* codes : {&p.q, &p.k})
    for (bf16_code& c : *codes) c = bf16_of(std::clamp(std::nearbyint(to_double(c)), -3.0, 3.0));
  return true;
}
bool prepare_zero_gradient(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  for (bf16_code& c : p.d_o) c = bf16_code::zero();
  return true;
}

double scale_of(attention_problem const& p) { return std::fabs(p.softmax_scale); }

/// f(b, h, i, bound of |dP| of the row)
template <class F>
void each_bound(attention_problem const& p, F f) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::vector<double> largest = largest_values(p, b, p.key_head_of(h));
      for (std::int64_t i = 0; i < p.queries; ++i) f(b, h, i, largest_dp(p, largest, b, h, i));
    }
}

property_outcome judge_constant_column(property_call const& call) {
  attention_problem const& p = call.problem;
  const kernel_results r = call.kernel.run(p, true);
  tally found;
  each_bound(p, [&](auto b, auto h, auto i, double bound) {
    const std::size_t at = query_at(p, b, h, i, 0);
    const double x = to_double(r.dq[at]);
    if (x == 0) return;
    found.deviate(std::fabs(x) / (0x1p-5 * std::max(bound * scale_of(p), 0x1p-100)), "dq", std::int64_t(at),
                  [&] { return fmt::format("dq[{}] = {:.9g}, but every key has 1 there, so that it is s times the sum of dS over the row, which is 0", at, x); });
  });
  return found.outcome();
}

property_outcome judge_dk_sum(property_call const& call) {
  attention_problem const& p = call.problem;
  const kernel_results r = call.kernel.run(p, true);
  const auto count = std::size_t(p.batch * p.key_heads * p.head_dim);
  std::vector<double> sums(count, 0), cast(count, 0), bounds(count, 0);
  const auto at = [&](std::int64_t b, std::int64_t kh, std::int64_t c) { return std::size_t((b * p.key_heads + kh) * p.head_dim + c); };
  each_key(p, [&](auto b, auto kh, auto j) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const double x = to_double(r.dk[key_at(p, b, kh, j, c)]);
      sums[at(b, kh, c)] += x;
      cast[at(b, kh, c)] += std::fabs(x) * 0x1p-8;
    }
  });
  each_bound(p, [&](auto b, auto h, auto i, double bound) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) bounds[at(b, p.key_head_of(h), c)] += std::fabs(to_double(p.q[query_at(p, b, h, i, c)])) * bound * scale_of(p) * 0x1p-5;
  });
  tally found;
  for (std::size_t x = 0; x < count; ++x)
    if (sums[x] != 0)
      found.deviate(std::fabs(sums[x]) / std::max(bounds[x] + cast[x], 0x1p-100), "dk", std::int64_t(x) % p.head_dim,
                    [&] { return fmt::format("dK sums to {:.9g} over the keys in column {}; exactly to 0", sums[x], std::int64_t(x) % p.head_dim); });
  return found.outcome();
}

property_outcome judge_offset(property_call const& call) {
  attention_problem const& p = call.problem;
  attention_problem other = p;
  for (bf16_code& c : other.k) c = bf16_of(to_double(c) + 16);
  const kernel_results a = call.kernel.run(p, true), b = call.kernel.run(other, true);
  tally found;
  each_bound(p, [&](auto n, auto h, auto i, double bound) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const std::size_t at = query_at(p, n, h, i, c);
      const double x = to_double(a.dq[at]), y = to_double(b.dq[at]);
      if (x != y)
        found.deviate(std::fabs(x - y) / (0x1p-5 * std::max(19 * bound * scale_of(p), 0x1p-100)), "dq", std::int64_t(at),
                      [&] { return fmt::format("dq[{}] = {:.9g} with 16 added to every key, {:.9g} without", at, y, x); });
    }
  });
  return found.outcome();
}

property_outcome judge_dv_sum(property_call const& call) {
  attention_problem const& p = call.problem;
  const kernel_results r = call.kernel.run(p, true);
  const auto count = std::size_t(p.batch * p.key_heads * p.head_dim);
  std::vector<double> sums(count, 0), bounds(count, 0);
  const auto at = [&](std::int64_t b, std::int64_t kh, std::int64_t c) { return std::size_t((b * p.key_heads + kh) * p.head_dim + c); };
  each_key(p, [&](auto b, auto kh, auto j) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const double x = to_double(r.dv[key_at(p, b, kh, j, c)]);
      sums[at(b, kh, c)] += x;
      bounds[at(b, kh, c)] += std::fabs(x) * 0x1p-8;
    }
  });
  each_query(p, [&](auto b, auto h, auto i) {
    if (visible(call.schedule, p, i) == 0) return;
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const double x = to_double(p.d_o[query_at(p, b, h, i, c)]);
      sums[at(b, p.key_head_of(h), c)] -= x;
      bounds[at(b, p.key_head_of(h), c)] += std::fabs(x) * 0x1p-6;
    }
  });
  tally found;
  for (std::size_t x = 0; x < count; ++x)
    if (sums[x] != 0)
      found.deviate(std::fabs(sums[x]) / std::max(bounds[x], 0x1p-100), "dv", std::int64_t(x) % p.head_dim,
                    [&] { return fmt::format("dV sums over the keys to {:.9g} more than dO over the rows, in column {}", sums[x], std::int64_t(x) % p.head_dim); });
  return found.outcome();
}

property_outcome judge_zero_gradient(property_call const& call) {
  const kernel_results r = call.kernel.run(call.problem, true);
  tally found;
  const auto all_zero = [&](const char* name, std::vector<bf16_code> const& codes) {
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (!codes[i].is_zero()) found.deviate(1e9, name, std::int64_t(i), [&] { return fmt::format("{}[{}] = {:.9g} where dO is 0", name, i, to_double(codes[i])); });
  };
  all_zero("dq", r.dq);
  all_zero("dk", r.dk);
  all_zero("dv", r.dv);
  return found.outcome();
}

property_outcome judge_gradient_scaled(property_call const& call) {
  attention_problem other = call.problem;
  const int k = call.seed % 2 == 0 ? 6 : -5;
  for (bf16_code& c : other.d_o) c = scaled(c, k);
  const kernel_results a = call.kernel.run(call.problem, true), b = call.kernel.run(other, true);
  tally found;
  const auto compare = [&](const char* name, std::vector<bf16_code> const& x, std::vector<bf16_code> const& y) {
    double largest = 0x1p-100;
    for (bf16_code c : x) largest = std::max(largest, std::fabs(std::ldexp(to_double(c), k)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::ldexp(to_double(x[i]), k), found_value = to_double(y[i]);
      if (expected == found_value || (std::fabs(expected) < 0x1p-90 && std::fabs(found_value) < 0x1p-90)) continue;
      found.deviate(std::fabs(expected - found_value) / (0x1p-6 * largest), name, std::int64_t(i),
                    [&] { return fmt::format("{}[{}] = {:.9g} with dO times 2^{}, expected {:.9g}", name, i, found_value, k, expected); });
    }
  };
  compare("dq", a.dq, b.dq);
  compare("dk", a.dk, b.dk);
  compare("dv", a.dv, b.dv);
  return found.outcome();
}

/// The exact gradients, against bounds that hold for any sound order of roundings.
property_outcome judge_near_exact(property_call const& call) {
  attention_problem const& p = call.problem;
  if (!(p.softmax_scale > 0) || p.heads != p.key_heads) return tally::none();
  const kernel_results r = call.kernel.run(p, true);
  tally found;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const head_gradients exact = exact_gradients_of_head(p, mask_of(call.schedule, p), b, h).evaluate();
      const std::vector<double> largest = largest_values(p, b, h);
      double most_q = 0, most_k = 0, all_bounds = 0;
      std::vector<double> gradient(std::size_t(p.head_dim), 0);
      for (std::int64_t i = 0; i < p.queries; ++i)
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          most_q = std::max(most_q, std::fabs(to_double(p.q[query_at(p, b, h, i, c)])));
          gradient[std::size_t(c)] += std::fabs(to_double(p.d_o[query_at(p, b, h, i, c)]));
        }
      for (std::int64_t j = 0; j < p.keys; ++j)
        for (std::int64_t c = 0; c < p.head_dim; ++c) most_k = std::max(most_k, std::fabs(to_double(p.k[key_at(p, b, h, j, c)])));
      const auto check = [&](const char* name, std::vector<bf16_code> const& codes, std::size_t at, double x, double unit) {
        const double y = to_double(codes[at]);
        if (y != x) found.deviate(std::fabs(x - y) / std::max(unit, 0x1p-100), name, std::int64_t(at), [&] { return fmt::format("{}[{}] = {:.9g}, exactly {:.9g}", name, at, y, x); });
      };
      for (std::int64_t i = 0; i < p.queries; ++i) {
        const double bound = largest_dp(p, largest, b, h, i) * scale_of(p) * 0x1p-4;
        all_bounds += bound;
        for (std::int64_t c = 0; c < p.head_dim; ++c) check("dq", r.dq, query_at(p, b, h, i, c), exact.dq[std::size_t(i * p.head_dim + c)].hi, bound * most_k);
      }
      for (std::int64_t j = 0; j < p.keys; ++j)
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          check("dk", r.dk, key_at(p, b, h, j, c), exact.dk[std::size_t(j * p.head_dim + c)].hi, all_bounds * most_q);
          check("dv", r.dv, key_at(p, b, h, j, c), exact.dv[std::size_t(j * p.head_dim + c)].hi, 0x1p-6 * gradient[std::size_t(c)]);
        }
    }
  return found.outcome();
}

}  // namespace

void append_gradient_properties(std::vector<attention_property>& all) {
  constexpr std::string_view moderate_domain = "numbers 0 or between 2^-20 and 2^20, scores up to 1024";
  all.insert(all.end(), {
    {"gradients-near-exact", "dQ, dK and dV are the mathematical values", "the same; no grouped heads", "2^-4 of what |dP|, scale and K or Q bound; dV: 2^-6 of sum_i |dO|", true, prepare_moderate, judge_near_exact},
    {"ds-sums-to-zero", "dQ in a column where every key is 1 is s times the sum of dS over the row: 0", moderate_domain, "2^-5 s max |dP|", true, prepare_constant_column, judge_constant_column},
    {"dk-sums-to-zero", "dK summed over the keys is 0", moderate_domain, "2^-5 s sum_i |Q| max |dP|, and the casts", true, prepare_moderate, judge_dk_sum},
    {"dq-key-offset", "the same vector added to every key gives the same dQ", "whole Q and K up to 3, an offset of 16", "2^-5 s max |K| max |dP|", true, prepare_offset, judge_offset},
    {"dv-sums-to-do", "dV summed over the keys is dO summed over the rows that see a key", moderate_domain, "2^-6 sum |dO|, and the casts", true, prepare_moderate, judge_dv_sum},
    {"zero-gradient", "dO = 0 gives gradients 0", moderate_domain, "none", true, prepare_zero_gradient, judge_zero_gradient},
    {"gradient-scaled", "dO times a power of two gives the gradients times it", moderate_domain, "2^-6 of the tensor's largest", true, prepare_moderate, judge_gradient_scaled},
  });
}

}  // namespace stickybit::detail
