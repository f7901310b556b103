#include "stickybit/study/regimes.hpp"

#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/study/random.hpp"

namespace stickybit {
namespace {

/// One head's rows, in double.
struct matrix {
  std::int64_t rows, columns;
  std::vector<double> data;

  matrix(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_), data(std::size_t(rows_ * columns_)) {}
  double& at(std::int64_t i, std::int64_t c) { return data[std::size_t(i * columns + c)]; }
};

matrix normal(study_random& random, std::int64_t rows, std::int64_t columns, double times = 1) {
  matrix m(rows, columns);
  for (double& x : m.data) x = random.normal() * times;
  return m;
}

struct head_values {
  matrix q, k, v, d_o;
};

void fall_below(matrix& m, double least) {
  for (double& x : m.data) x = -(std::fabs(x) + least);
}

void add_mean(matrix& m, matrix& mean) {
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c) m.at(i, c) += mean.at(0, c);
}

/// What is small beside what all keys share; queries point to keys.
void late_keys(head_values& h, double a, study_random& random) {
  matrix mean = normal(random, 1, h.k.columns, a);
  for (double& x : h.k.data) x *= 1.5;
  for (std::int64_t i = 0; i < h.q.rows; ++i)
    for (std::int64_t c = 0; c < h.q.columns; ++c) h.q.at(i, c) = 0.5 * h.q.at(i, c) + 1.2 * h.k.at(5 * i % h.k.rows, c);
  add_mean(h.k, mean);
}

void hot_keys(head_values& h, double a, study_random& random) {
  matrix mean = normal(random, 1, h.k.columns, a);
  const std::vector<std::int64_t> order = random.permutation(h.k.rows);
  for (std::int64_t i = 0; i < h.q.rows; ++i)
    for (std::int64_t c = 0; c < h.q.columns; ++c) h.q.at(i, c) = 2 * h.k.at(order[std::size_t(i % h.k.rows)], c);
  add_mean(h.k, mean);
}

/// The keys of group g: two equal ones, and the third.
struct three_keys {
  std::int64_t groups;
  bool apart;

  [[nodiscard]] std::int64_t key(std::int64_t group, std::int64_t member) const { return apart ? group + member * groups : 3 * group + member; }
};

/// V of the pairs ±(1 + u), of the third keys a (1 + u/4).
void tied_values(head_values& h, double a, three_keys threes, study_random& random) {
  for (std::int64_t g = 0; g < threes.groups; ++g)
    for (std::int64_t member = 0; member < 3; ++member)
      for (std::int64_t c = 0; c < h.v.columns; ++c) h.v.at(threes.key(g, member), c) = member == 2 ? a * (1 + random.uniform() / 4) : (a < 0 ? -1 : 1) * (1 + random.uniform());
  for (double& x : h.d_o.data) x = std::fabs(x);
}

/// Queries are three times a pair's key: scores near 3·√d for the pair, the third lower by 9, all others far lower. `lowered`: one column,
/// the same for all, takes all scores below 0.
void tied_keys(head_values& h, double a, bool apart, bool lowered, study_random& random) {
  const three_keys threes{h.k.rows / 3, apart};
  const std::int64_t d = h.k.columns;
  const double third = 1 - 9 / (3 * std::sqrt(double(d)));  // 3·√d·(1 − third) = 9, about ln 2^13
  for (std::int64_t g = 0; g < threes.groups; ++g)
    for (std::int64_t c = 0; c < d; ++c) {
      const double x = h.k.at(threes.key(g, 0), c);
      h.k.at(threes.key(g, 1), c) = x;
      h.k.at(threes.key(g, 2), c) = third * x;
    }
  for (std::int64_t i = 0; i < h.q.rows; ++i) {
    const std::int64_t group = random.below(threes.groups);
    for (std::int64_t c = 0; c < d; ++c) h.q.at(i, c) = 3 * h.k.at(threes.key(group, 0), c);
  }
  if (lowered) {
    for (std::int64_t i = 0; i < h.q.rows; ++i) h.q.at(i, 0) = -16;
    for (std::int64_t j = 0; j < h.k.rows; ++j) h.k.at(j, 0) = 32;
  }
  tied_values(h, a, threes, random);
}

/// Eight parts of the columns; a query lives in one of them, a pair is 0 in one of them, all else is negative times positive.
void zero_keys(head_values& h, double a, study_random& random) {
  const std::int64_t d = h.k.columns, part = d / 8;
  const three_keys threes{h.k.rows / 3, false};
  const double steep = 30;
  for (double& x : h.k.data) x = -steep * (0.5 + std::fabs(x));
  for (std::int64_t g = 0; g < 8; ++g)
    for (std::int64_t c = g * part; c < (g + 1) * part; ++c) {
      h.k.at(threes.key(g, 0), c) = h.k.at(threes.key(g, 1), c) = 0;
      h.k.at(threes.key(g, 2), c) = -10;
    }
  for (std::int64_t i = 0; i < h.q.rows; ++i) {
    const std::int64_t g = random.below(8);
    for (std::int64_t c = 0; c < d; ++c) h.q.at(i, c) = c / part == g ? 0.5 + std::fabs(h.q.at(i, c)) / 2 : 0;
  }
  tied_values(h, a, threes, random);
}

void tie_in_pairs(head_values& h) {
  for (std::int64_t j = 1; j < h.k.rows; j += 2)
    for (std::int64_t c = 0; c < h.k.columns; ++c) h.k.at(j, c) = h.k.at(j - 1, c);
}

void own_keys(head_values& h, double a, study_random& random) {
  const std::vector<std::int64_t> order = random.permutation(h.k.rows);
  for (std::int64_t i = 0; i < h.q.rows; ++i)
    for (std::int64_t c = 0; c < h.q.columns; ++c) h.q.at(i, c) = a * h.k.at(order[std::size_t(i % h.k.rows)], c);
}

void correlate(head_values& h, double a) {
  for (std::int64_t i = 0; i < h.q.rows; ++i)
    for (std::int64_t c = 0; c < h.q.columns; ++c) h.q.at(i, c) = a * (h.k.at(i % h.k.rows, c) + h.q.at(i, c) / 2);
  for (std::size_t i = 0; i < h.v.data.size(); ++i) h.v.data[i] += h.k.data[i] / 2;
}

void shape(regime_kind kind, double a, head_values& h, study_random& random) {
  const auto times = [](matrix& m, double by) { for (double& x : m.data) x *= by; };
  const auto one_sign = [&] { fall_below(h.v, 0.5), fall_below(h.d_o, 0); };
  switch (kind) {
    case regime_kind::gauss: return times(h.q, a);
    case regime_kind::late: return late_keys(h, a, random);
    case regime_kind::hot: return hot_keys(h, a, random);
    case regime_kind::ties: return tie_in_pairs(h), times(h.q, a), one_sign();
    case regime_kind::tied_pair: return tied_keys(h, a, false, false, random);
    case regime_kind::tied_apart: return tied_keys(h, a, true, false, random);
    case regime_kind::tied_negative: return tied_keys(h, a, false, true, random);
    case regime_kind::tied_zero: return zero_keys(h, a, random);
    case regime_kind::negative:
      for (double& x : h.k.data) x = std::fabs(x);
      return fall_below(h.q, 0), times(h.q, a);
    case regime_kind::one_signed: return times(h.q, a), one_sign();
    case regime_kind::constant_v:
      for (double& x : h.v.data) x = 1 + a * x;
      return;
    case regime_kind::value_mean: {
      matrix of_v = normal(random, 1, h.v.columns, a), of_d_o = normal(random, 1, h.v.columns);
      return add_mean(h.v, of_v), add_mean(h.d_o, of_d_o);
    }
    case regime_kind::one_hot: return own_keys(h, a, random);
    case regime_kind::key_mean: {
      matrix mean = normal(random, 1, h.k.columns, a);
      return add_mean(h.k, mean);
    }
    case regime_kind::correlated: return correlate(h, a);
  }
}

void store(matrix const& from, std::vector<bf16_code>& to, row_strides s, std::int64_t head, double times = 1) {
  for (std::int64_t i = 0; i < from.rows; ++i)
    for (std::int64_t c = 0; c < from.columns; ++c)
      to[std::size_t(s.offset(0, head, i) + c)] = round_to<format::bf16>({from.data[std::size_t(i * from.columns + c)] * times, 0});
}

}  // namespace

bool is_tied(regime_kind kind) noexcept {
  using enum regime_kind;
  return kind == ties || kind == tied_pair || kind == tied_apart || kind == tied_negative || kind == tied_zero;
}

attention_problem generate(named_regime const& r, std::uint64_t seed) {
  attention_problem p;
  p.heads = r.heads, p.key_heads = r.key_heads, p.queries = r.queries, p.keys = r.keys, p.head_dim = r.head_dim;
  p.causal = r.causal;
  p.softmax_scale = r.softmax_scale == 0 ? 1 / std::sqrt(double(r.head_dim)) : r.softmax_scale;
  p.q.resize(std::size_t(r.queries * r.heads * r.head_dim));
  p.d_o.resize(p.q.size());
  p.k.resize(std::size_t(r.keys * r.key_heads * r.head_dim));
  p.v.resize(p.k.size());
  // The name enters by its bytes (FNV-1a), so that two regimes never share their numbers.
  std::uint64_t state = 0xcbf29ce484222325u;
  for (char c : r.name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  state ^= seed * 0x9e3779b97f4a7c15u;
  study_random random(state);
  std::vector<head_values> key_heads;
  for (std::int64_t head = 0; head < r.heads; ++head) {
    head_values h{normal(random, r.queries, r.head_dim), normal(random, r.keys, r.head_dim), normal(random, r.keys, r.head_dim), normal(random, r.queries, r.head_dim)};
    const std::int64_t key_head = p.key_head_of(head);
    // Heads of one group share what the first one made of their keys: queries are shaped on fresh numbers from the same state.
    if (head % (r.heads / r.key_heads) == 0) key_heads.push_back(h);
    else h.k = key_heads.back().k, h.v = key_heads.back().v;
    study_random same(state + std::uint64_t(key_head) + 1);
    shape(r.kind, r.a, h, same);
    store(h.q, p.q, p.query_strides(), head);
    store(h.d_o, p.d_o, p.query_strides(), head, r.d_o);
    store(h.k, p.k, p.key_strides(), key_head);
    store(h.v, p.v, p.key_strides(), key_head);
  }
  return p;
}

}  // namespace stickybit
