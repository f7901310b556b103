#include "stickybit/property/properties.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "property_parts.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/format/text.hpp"

namespace stickybit {
namespace detail {

void keep_keys(attention_problem& p, std::int64_t n) {
  n = std::clamp<std::int64_t>(n, 1, p.keys);
  attention_problem to = p;
  to.keys = n;
  to.k.assign(std::size_t(p.batch * p.key_heads * n * p.head_dim), {});
  to.v = to.k;
  each_key(to, [&](auto b, auto h, auto j) {
    std::copy_n(p.k.begin() + std::int64_t(key_at(p, b, h, j, 0)), p.head_dim, to.k.begin() + std::int64_t(key_at(to, b, h, j, 0)));
    std::copy_n(p.v.begin() + std::int64_t(key_at(p, b, h, j, 0)), p.head_dim, to.v.begin() + std::int64_t(key_at(to, b, h, j, 0)));
  });
  p = std::move(to);
}

void keep_queries(attention_problem& p, std::int64_t n) {
  n = std::clamp<std::int64_t>(n, 1, p.queries);
  attention_problem to = p;
  to.queries = n;
  to.q.assign(std::size_t(p.batch * p.heads * n * p.head_dim), {});
  if (!p.d_o.empty()) to.d_o = to.q;
  each_query(to, [&](auto b, auto h, auto i) {
    std::copy_n(p.q.begin() + std::int64_t(query_at(p, b, h, i, 0)), p.head_dim, to.q.begin() + std::int64_t(query_at(to, b, h, i, 0)));
    if (!p.d_o.empty()) std::copy_n(p.d_o.begin() + std::int64_t(query_at(p, b, h, i, 0)), p.head_dim, to.d_o.begin() + std::int64_t(query_at(to, b, h, i, 0)));
  });
  p = std::move(to);
}

void moderate(attention_problem& p) {
  for (auto* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code& c : *codes) {
      const double x = std::fabs(to_double(c));
      if (x == 0 || (x >= 0x1p-20 && x <= 0x1p20)) continue;
      c = x < 0x1p-20 ? bf16_code::zero(c.negative()) : bf16_of(c.negative() ? -1.5 : 1.5);
    }
  double q = 0, k = 0;  // largest sums of magnitudes bound every score: |q·k| ≤ Σ|q| max|k|
  each_query(p, [&](auto b, auto h, auto i) {
    double sum = 0;
    for (std::int64_t c = 0; c < p.head_dim; ++c) sum += std::fabs(to_double(p.q[query_at(p, b, h, i, c)]));
    q = std::max(q, sum);
  });
  for (bf16_code c : p.k) k = std::max(k, std::fabs(to_double(c)));
  const double bound = q * k * std::fabs(p.softmax_scale);
  if (bound <= 1024) return;
  const int down = int(std::ceil(std::log2(bound / 1024)));
  for (bf16_code& c : p.q) c = scaled(c, -down);
}

std::vector<double> largest_values(attention_problem const& p, std::int64_t b, std::int64_t key_head) {
  std::vector<double> largest(std::size_t(p.head_dim), 0);
  for (std::int64_t j = 0; j < p.keys; ++j)
    for (std::int64_t c = 0; c < p.head_dim; ++c) largest[std::size_t(c)] = std::max(largest[std::size_t(c)], std::fabs(to_double(p.v[key_at(p, b, key_head, j, c)])));
  return largest;
}

double largest_dp(attention_problem const& p, std::vector<double> const& largest_v, std::int64_t b, std::int64_t head, std::int64_t row) {
  double sum = 0;
  for (std::int64_t c = 0; c < p.head_dim; ++c) sum += std::fabs(to_double(p.d_o[query_at(p, b, head, row, c)])) * largest_v[std::size_t(c)];
  return sum;
}

}  // namespace detail

namespace {

using namespace detail;

template <class Code>
bool compare_tensor(property_outcome& outcome, const char* name, std::vector<Code> const& found, std::vector<Code> const& expected, std::string_view expected_is) {
  if (found.empty() || expected.empty()) return true;
  std::int64_t differing = found.size() != expected.size(), first = -1;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    if (found[i] != expected[i] && !(found[i].is_nan() && expected[i].is_nan())) {
      ++differing;
      if (first < 0) first = std::int64_t(i);
    }
  if (differing == 0) return true;
  outcome.exact = false;
  outcome.deviation = 1e9;
  outcome.tensor = name;
  outcome.index = first;
  if (first >= 0)
    outcome.what = fmt::format("{}: {} of {} elements differ from {}; the first, {}: {} ({}) instead of {} ({})", name, differing, found.size(), expected_is, first, decimal(found[std::size_t(first)]),
                               hex_code(found[std::size_t(first)]), decimal(expected[std::size_t(first)]), hex_code(expected[std::size_t(first)]));
  else outcome.what = fmt::format("{}: {} elements instead of {}", name, found.size(), expected.size());
  return false;
}

bool prepare_any(attention_problem&, attention_schedule const&, study_random&) { return true; }

property_outcome judge_equals(property_call const& call) {
  attention_problem const& p = call.problem;
  const forward_result forward = attention_forward(call.schedule, p);
  const bool gradients = !p.d_o.empty() && call.kernel.has_backward() && !call.schedule.backward_tiles.empty();
  kernel_results expected{forward.o, forward.lse, {}, {}, {}};
  if (gradients) {
    backward_result g = attention_backward(call.schedule, p, forward);
    expected.dq = std::move(g.dq);
    expected.dk = std::move(g.dk);
    expected.dv = std::move(g.dv);
  }
  return compare_results(call.kernel.run(p, gradients), expected, call.schedule.name);
}

property_outcome judge_determinism(property_call const& call) {
  const variation v = find_variation(call.kernel, call.problem, !call.problem.d_o.empty() && call.kernel.has_backward(), 3);
  property_outcome outcome;
  if (!v.found()) return outcome;
  outcome.exact = false;
  outcome.deviation = 1e9;
  outcome.tensor = v.tensors[0];
  outcome.what = v.what;
  return outcome;
}

std::vector<attention_property> made() {
  std::vector<attention_property> all;
  all.push_back({"equals-schedule", "every code of every result is that of the schedule, NaN for NaN", "every call that the schedule takes", "none", false, prepare_any, judge_equals});
  all.push_back({"determinism", "runs give the same bits, of NaN too", "every call", "none", false, prepare_any, judge_determinism});
  append_forward_properties(all);
  append_relation_properties(all);
  append_gradient_properties(all);
  return all;
}

}  // namespace

bool variation::has(std::string_view tensor) const noexcept { return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end(); }

variation find_variation(kernel_under_test& kernel, attention_problem const& p, bool gradients, std::int64_t runs) {
  const kernel_results first = kernel.run(p, gradients);
  variation v;
  struct change {
    const char* tensor;
    std::int64_t most = 0, of = 0, at = -1;
    std::string was, is;
  };
  std::vector<change> changes{{"o"}, {"lse"}, {"dq"}, {"dk"}, {"dv"}};
  const auto look = [](change& c, auto const& a, auto const& b) {
    std::int64_t n = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (a[i].to_bits() != b[i].to_bits()) {
        if (c.at < 0) {
          c.at = std::int64_t(i);
          c.was = fmt::format("{} ({})", decimal(a[i]), hex_code(a[i]));
          c.is = fmt::format("{} ({})", decimal(b[i]), hex_code(b[i]));
        }
        ++n;
      }
    c.most = std::max(c.most, n + std::int64_t(a.size() != b.size()));
    c.of = std::int64_t(a.size());
  };
  for (std::int64_t after = 0; v.runs < runs && after < 3; after += v.changed != 0) {
    const kernel_results again = kernel.run(p, gradients);
    ++v.runs;
    if (again == first) continue;
    ++v.changed;
    look(changes[0], first.o, again.o);
    look(changes[1], first.lse, again.lse);
    look(changes[2], first.dq, again.dq);
    look(changes[3], first.dk, again.dk);
    look(changes[4], first.dv, again.dv);
  }
  for (change const& c : changes)
    if (c.most != 0) {
      v.tensors.emplace_back(c.tensor);
      v.what += fmt::format("{}{}: up to {} of {} codes change between two runs; element {}: {}, then {}", v.what.empty() ? "" : "; ", c.tensor, c.most, c.of, c.at, c.was, c.is);
    }
  if (v.found()) v.what = fmt::format("not deterministic, {} of {} further runs give other codes: {}", v.changed, v.runs, v.what);
  return v;
}

property_outcome compare_results(kernel_results const& found, kernel_results const& expected, std::string_view expected_is) {
  property_outcome outcome;
  (void)(compare_tensor(outcome, "o", found.o, expected.o, expected_is) && compare_tensor(outcome, "lse", found.lse, expected.lse, expected_is) &&
         compare_tensor(outcome, "dv", found.dv, expected.dv, expected_is) && compare_tensor(outcome, "dk", found.dk, expected.dk, expected_is) &&
         compare_tensor(outcome, "dq", found.dq, expected.dq, expected_is));
  return outcome;
}

std::span<attention_property const> all_properties() noexcept {
  static const std::vector<attention_property> all = made();
  return all;
}

attention_property const& property_named(std::string_view name) {
  std::string known;
  for (attention_property const& p : all_properties()) {
    if (p.name == name) return p;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
  }
  throw std::invalid_argument(fmt::format("unknown property '{}': expected one of {}", name, known));
}

std::optional<property_outcome> judge_prepared(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule, attention_problem const& problem, std::uint64_t seed) {
  if (property.gradients && (!kernel.has_backward() || problem.d_o.empty())) return std::nullopt;
  try {
    property_outcome outcome = property.judge({kernel, schedule, problem, seed});
    if (!outcome.applies) return std::nullopt;
    return outcome;
  } catch (unsupported_call const&) {
    return std::nullopt;
  }
}

std::optional<property_outcome> judge(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule, attention_problem const& problem, std::uint64_t seed,
                                      attention_problem* prepared) {
  attention_problem p = problem;
  study_random random(seed ^ 0x5851f42d4c957f2du);
  if (property.gradients && (!kernel.has_backward() || problem.d_o.empty())) return std::nullopt;
  if (!property.prepare(p, schedule, random)) return std::nullopt;
  const std::optional<property_outcome> outcome = judge_prepared(property, kernel, schedule, p, seed);
  if (prepared != nullptr) *prepared = std::move(p);
  return outcome;
}

}  // namespace stickybit
