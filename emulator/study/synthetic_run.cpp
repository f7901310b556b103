#include <algorithm>
#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/study/low_rank.hpp"
#include "stickybit/study/random.hpp"

namespace stickybit {
namespace {

/// [d_model × d], by feature.
using weights = std::vector<double>;

struct model {
  synthetic_run const& run;
  std::int64_t scored;  // features 1 … scored are what queries and keys read, those behind what values read
  weights q, k, v;
  std::vector<double> shared;  // two directions over the scored features

  model(synthetic_run const& run_, study_random& random) : run(run_), scored(run_.d_model / 2), q(size()), k(size()), v(size()), shared(std::size_t(2 * run_.d_model)) {
    const double each = 1 / std::sqrt(double(scored));
    for (std::int64_t m = 0; m < run.d_model; ++m)
      for (std::int64_t c = 0; c < run.head_dim; ++c) {
        const std::size_t at = place(m, c);
        if (m == 0) k[at] = run.key_mean * random.normal(), v[at] = -1.5;
        else if (m <= scored) q[at] = 3 * (k[at] = each * random.normal());
        else v[at] = 0.15 * each * random.normal();
      }
    for (double& x : shared) x = random.normal();
  }

  [[nodiscard]] std::size_t size() const { return std::size_t(run.d_model * run.head_dim); }
  [[nodiscard]] std::size_t place(std::int64_t feature, std::int64_t column) const { return std::size_t(feature * run.head_dim + column); }

  /// One hundredth of each weight's own size; what is 0 stays 0.
  void drift(study_random& random) {
    for (weights* w : {&q, &k, &v})
      for (double& x : *w) x *= 1 + 0.01 * random.normal();
  }

  /// X in BF16 numbers; twins are 2 i and 2 i + 1.
  [[nodiscard]] std::vector<double> tokens(study_random& random) const {
    std::vector<double> x(std::size_t(run.tokens * run.d_model));
    for (std::int64_t i = 0; i < run.tokens; ++i) {
      double* const row = x.data() + i * run.d_model;
      const double first = random.normal(), second = random.normal();
      row[0] = 1;
      for (std::int64_t m = 1; m < run.d_model; ++m) {
        const bool of_key = m <= scored;
        row[m] = random.normal() + (of_key ? 0.5 * first * shared[std::size_t(m)] + 0.5 * second * shared[std::size_t(run.d_model + m)] : 0);
        if (of_key && i % 2 == 1) row[m] = row[m - run.d_model];
        row[m] = to_double(round_to<format::bf16>({row[m], 0}));
      }
    }
    return x;
  }

  [[nodiscard]] std::vector<double> product(std::vector<double> const& x, weights const& w) const {
    std::vector<double> y(std::size_t(run.tokens * run.head_dim));
    for (std::int64_t i = 0; i < run.tokens; ++i)
      for (std::int64_t m = 0; m < run.d_model; ++m)
        for (std::int64_t c = 0; c < run.head_dim; ++c) y[std::size_t(i * run.head_dim + c)] += x[std::size_t(i * run.d_model + m)] * w[place(m, c)];
    return y;
  }
};

std::vector<bf16_code> codes_of(std::vector<double> const& x) {
  std::vector<bf16_code> codes;
  for (double y : x) codes.push_back(round_to<format::bf16>({y, 0}));
  return codes;
}

/// The sink: one more key column, in which every query has 1 and all keys but the sink 0. Its score is seven below the query's own.
void add_sink(attention_problem& p, std::vector<double>& q, std::vector<double>& k, std::vector<double>& v) {
  const std::int64_t d = p.head_dim;
  for (std::int64_t i = 0; i < p.queries; ++i) {
    double own = 0;
    for (std::int64_t c = 0; c < d - 1; ++c) own += q[std::size_t(i * d + c)] * k[std::size_t(i * d + c)];
    for (std::int64_t c = 0; c < d - 1; ++c) k[std::size_t(c)] = 0;
    q[std::size_t(i * d + d - 1)] = (own * p.softmax_scale - 7) / p.softmax_scale / 16;
    k[std::size_t(i * d + d - 1)] = i == 0 ? 16 : 0;
  }
  for (std::int64_t c = 0; c < d; ++c) v[std::size_t(c)] /= 64;
}

}  // namespace

std::vector<training_step> make_run(synthetic_run const& run) {
  study_random random(run.seed);
  model m(run, random);
  std::vector<training_step> steps;
  for (std::int64_t t = 0; t < run.steps; ++t) {
    training_step s{.problem = {}, .d_model = run.d_model, .x = m.tokens(random)};
    attention_problem& p = s.problem;
    p.queries = p.keys = run.tokens;
    p.head_dim = run.head_dim;
    p.softmax_scale = 1 / std::sqrt(double(run.head_dim));
    std::vector<double> q = m.product(s.x, m.q), k = m.product(s.x, m.k), v = m.product(s.x, m.v);
    add_sink(p, q, k, v);
    p.q = codes_of(q), p.k = codes_of(k), p.v = codes_of(v);
    for (std::size_t i = 0; i < q.size(); ++i) {
      const double x = 0.01 * random.normal();
      p.d_o.push_back(round_to<format::bf16>({run.one_signed_d_o ? -std::fabs(x) : x, 0}));
    }
    steps.push_back(std::move(s));
    m.drift(random);
  }
  return steps;
}

std::vector<double> synthetic_tokens(std::int64_t rows, std::int64_t d_model, std::uint64_t seed, std::int64_t step) {
  study_random shared(seed), own(seed + 0x1000003u * std::uint64_t(step + 1));
  std::vector<double> directions(std::size_t(3 * d_model)), x;
  for (double& y : directions) y = shared.normal();
  for (std::int64_t i = 0; i < rows; ++i) {
    const double first = own.normal(), second = own.normal();
    for (std::int64_t m = 0; m < d_model; ++m) {
      const auto at = [&](std::int64_t which) { return directions[std::size_t(which * d_model + m)]; };
      x.push_back(to_double(round_to<format::bf16>({at(0) + 0.5 * first * at(1) + 0.5 * second * at(2) + own.normal(), 0})));
    }
  }
  return x;
}

}  // namespace stickybit
