// Regimes that the model had not seen when it was frozen: other distributions of Q, K, V and dO than the named regimes have, and other
// structure in the scores.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "predict/regimes.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/study/random.hpp"

namespace stickybit::test {
namespace {

/// How the scores come about, before they are scaled.
enum class scores {
  independent,  ///< q, k normal
  sink,         ///< key 0 is every query's: a score higher by `s`
  band,         ///< lower by s for each position between query and key, by two columns of positions
  two_columns,  ///< all but two columns of q are 0
  uneven_rows,  ///< q times 2^(s·r), one factor a row
  clusters,     ///< keys in eight clusters, s apart
  opposed,      ///< q = −s k + r: the row's own key has the lowest score
  repeated,     ///< queries in pairs of equal ones
  shared_key,   ///< keys in pairs of equal ones
  powers,       ///< q, k powers of two with random signs
};

enum class values {
  normal,
  heavy,     ///< sign · 2^(v·r)
  coarse,    ///< three significant bits
  shifted,   ///< r + v, one v for each column, of both signs
  positive,  ///< |r| + v
  sparse,    ///< nine of ten are 0
  columns,   ///< column c times 2^(v·(c mod 5 − 2))
  parity,    ///< even keys +(1 + u), odd ones −(1 + u)
  constant,  ///< v in every element
};

enum class upstream { normal, negative, tiny, huge, sparse, like_v };

struct later {
  std::string_view name;
  scores s_kind = scores::independent;
  double s = 1;
  values v_kind = values::normal;
  double v = 1;
  upstream up = upstream::normal;
  std::int64_t queries = 256, keys = 256, d = 64;
  bool causal = false;
  double scale = 0;        ///< 0: 1/√d
  std::int64_t group = 1;  ///< query heads to a key head
  std::string_view biased = {};
};

using enum scores;
using enum values;

constexpr std::array table{
    later{.name = "sink-weak", .s_kind = sink, .s = 2},
    later{.name = "sink-strong", .s_kind = sink, .s = 8},
    later{.name = "sink-overwhelming", .s_kind = sink, .s = 20, .queries = 1024},
    later{.name = "sink-causal", .s_kind = sink, .s = 4, .causal = true},
    later{.name = "sink-positive", .s_kind = sink, .s = 3, .v_kind = positive, .v = 0.5, .up = upstream::negative},
    later{.name = "sink-long", .s_kind = sink, .s = 5, .queries = 128, .keys = 2048},
    later{.name = "band-wide", .s_kind = band, .s = 0.02},
    later{.name = "band-narrow", .s_kind = band, .s = 0.5},
    later{.name = "band-causal", .s_kind = band, .s = 0.1, .causal = true},
    later{.name = "band-d128", .s_kind = band, .s = 0.05, .d = 128},
    later{.name = "two-columns", .s_kind = two_columns, .s = 4},
    later{.name = "two-columns-sharp", .s_kind = two_columns, .s = 16},
    later{.name = "two-columns-shifted", .s_kind = two_columns, .s = 4, .v_kind = shifted, .v = 3},
    later{.name = "heavy-queries", .s_kind = uneven_rows, .s = 1},
    later{.name = "heavy-queries-d128", .s_kind = uneven_rows, .s = 1, .d = 128},
    later{.name = "heavy-queries-causal", .s_kind = uneven_rows, .s = 1.5, .causal = true},
    later{.name = "clusters-near", .s_kind = clusters, .s = 0.5},
    later{.name = "clusters-far", .s_kind = clusters, .s = 2},
    later{.name = "clusters-positive", .s_kind = clusters, .s = 1, .v_kind = positive, .v = 1},
    later{.name = "opposed", .s_kind = opposed, .s = 0.5},
    later{.name = "opposed-strong", .s_kind = opposed, .s = 2},
    later{.name = "repeated-queries", .s_kind = repeated, .s = 1},
    later{.name = "repeated-sharp", .s_kind = repeated, .s = 4},
    later{.name = "shared-keys", .s_kind = shared_key, .s = 1},
    later{.name = "shared-keys-sharp", .s_kind = shared_key, .s = 3},
    later{.name = "shared-keys-parity", .s_kind = shared_key, .s = 3, .v_kind = parity},
    later{.name = "powers-of-two", .s_kind = powers, .s = 1},
    later{.name = "powers-coarse", .s_kind = powers, .s = 1, .v_kind = coarse},
    later{.name = "half-scores", .s = 0.5},
    later{.name = "double-scores", .s = 2},
    later{.name = "scores-by-three", .s = 3},
    later{.name = "odd-scale", .scale = 0.1},
    later{.name = "odd-scale-d128", .d = 128, .scale = 0.07},
    later{.name = "tiny-scale", .scale = 1.0 / 512},
    later{.name = "unit-scale", .s = 0.5, .scale = 1},
    later{.name = "values-heavy", .v_kind = values::heavy, .v = 2},
    later{.name = "values-very-heavy", .v_kind = values::heavy, .v = 5},
    later{.name = "values-coarse", .v_kind = coarse},
    later{.name = "values-shifted", .v_kind = shifted, .v = 1, .biased = "dk"},
    later{.name = "values-far-shifted", .v_kind = shifted, .v = 5, .up = upstream::negative, .biased = "dk"},
    later{.name = "values-positive", .v_kind = positive, .v = 0.25, .up = upstream::negative, .biased = "dk"},
    later{.name = "values-positive-causal", .v_kind = positive, .v = 0.25, .up = upstream::negative, .causal = true},
    later{.name = "values-sparse", .v_kind = values::sparse},
    later{.name = "values-by-column", .v_kind = columns, .v = 6},
    later{.name = "values-parity", .v_kind = parity},
    later{.name = "values-parity-negative", .v_kind = parity, .up = upstream::negative},
    later{.name = "values-one-and-a-half", .v_kind = constant, .v = 1.5},
    later{.name = "tiny-gradients", .up = upstream::tiny},
    later{.name = "huge-gradients", .up = upstream::huge},
    later{.name = "sparse-gradients", .up = upstream::sparse},
    later{.name = "gradients-like-values", .v_kind = shifted, .v = 0.5, .up = upstream::like_v},
    later{.name = "gradients-negative", .up = upstream::negative},
    later{.name = "grouped-four", .group = 4},
    later{.name = "grouped-two-sharp", .s = 3, .group = 2},
    later{.name = "grouped-causal", .causal = true, .group = 2},
    later{.name = "few-keys", .queries = 1024, .keys = 24},
    later{.name = "many-keys", .queries = 128, .keys = 4096},
    later{.name = "uneven", .queries = 321, .keys = 203},
    later{.name = "uneven-causal", .queries = 203, .keys = 321, .causal = true},
    later{.name = "more-queries-causal", .queries = 384, .keys = 256, .causal = true},
    later{.name = "d128-causal", .d = 128, .causal = true},
    later{.name = "d128-positive", .v_kind = positive, .v = 0.5, .up = upstream::negative, .d = 128, .biased = "dk"},
};

using rows = std::vector<double>;  // [rows × d]

struct head_numbers {
  rows q, k, v, d_o;
};

double powers_of_two(study_random& random) { return std::ldexp(random.below(2) == 0 ? -1.0 : 1.0, int(random.below(4)) - 2); }

void shape_scores(later const& r, head_numbers& h, study_random& random) {
  const std::int64_t d = r.d;
  const double root = std::sqrt(double(d));
  const auto row = [d](rows& m, std::int64_t i) { return m.data() + i * d; };
  switch (r.s_kind) {
    case independent:
      for (double& x : h.q) x *= r.s;
      break;
    case sink:  // one column: q is 1 there, key 0 holds s·√d, the others 0
      for (std::int64_t i = 0; i < r.queries; ++i) row(h.q, i)[0] = 1;
      for (std::int64_t j = 0; j < r.keys; ++j) row(h.k, j)[0] = j == 0 ? r.s * root : 0;
      break;
    case band:  // −(i − j)²·s/w, by three columns
      for (std::int64_t i = 0; i < r.queries; ++i) row(h.q, i)[0] = double(i) / 16, row(h.q, i)[1] = 1;
      for (std::int64_t j = 0; j < r.keys; ++j) row(h.k, j)[0] = r.s * root * double(j) / 8, row(h.k, j)[1] = -r.s * root * double(j) * double(j) / 256;
      break;
    case two_columns:
      for (std::int64_t i = 0; i < r.queries; ++i)
        for (std::int64_t c = 0; c < d; ++c) row(h.q, i)[c] *= c < 2 ? r.s : 0;
      break;
    case uneven_rows:
      for (std::int64_t i = 0; i < r.queries; ++i) {
        const double factor = std::exp2(r.s * random.normal());
        for (std::int64_t c = 0; c < d; ++c) row(h.q, i)[c] *= factor;
      }
      break;
    case clusters: {
      rows centres(std::size_t(8 * d));
      for (double& x : centres) x = r.s * random.normal();
      for (std::int64_t j = 0; j < r.keys; ++j)
        for (std::int64_t c = 0; c < d; ++c) row(h.k, j)[c] = 0.25 * row(h.k, j)[c] + centres[std::size_t(j % 8 * d + c)];
      break;
    }
    case opposed:
      for (std::int64_t i = 0; i < r.queries; ++i)
        for (std::int64_t c = 0; c < d; ++c) row(h.q, i)[c] -= r.s * row(h.k, i % r.keys)[c];
      break;
    case repeated:
      for (std::int64_t i = 0; i < r.queries; ++i)
        for (std::int64_t c = 0; c < d; ++c) row(h.q, i)[c] = i % 2 == 0 ? r.s * row(h.q, i)[c] : row(h.q, i - 1)[c];
      break;
    case shared_key:
      for (double& x : h.q) x *= r.s;
      for (std::int64_t j = 1; j < r.keys; j += 2) std::copy_n(row(h.k, j - 1), d, row(h.k, j));
      break;
    case powers:
      for (double& x : h.q) x = powers_of_two(random);
      for (double& x : h.k) x = powers_of_two(random);
      break;
  }
}

void shape_values(later const& r, head_numbers& h, study_random& random) {
  const std::int64_t d = r.d;
  rows shifts(static_cast<std::size_t>(d));
  for (double& x : shifts) x = r.v * random.normal();
  for (std::int64_t j = 0; j < r.keys; ++j)
    for (std::int64_t c = 0; c < d; ++c) {
      double& x = h.v[std::size_t(j * d + c)];
      switch (r.v_kind) {
        case values::normal: break;
        case values::heavy: x = std::copysign(std::exp2(r.v * random.normal()), x); break;
        case coarse: x = std::round(x * 2) / 2; break;
        case shifted: x += shifts[std::size_t(c)]; break;
        case positive: x = std::fabs(x) + r.v; break;
        case values::sparse: x *= random.below(10) == 0 ? 1 : 0; break;
        case columns: x = std::ldexp(x, int(r.v) * int(c % 5 - 2)); break;
        case parity: x = (j % 2 == 0 ? 1 : -1) * (1 + random.uniform()); break;
        case constant: x = r.v; break;
      }
    }
}

void shape_gradients(later const& r, head_numbers& h, study_random& random) {
  for (std::size_t i = 0; i < h.d_o.size(); ++i) {
    double& x = h.d_o[i];
    switch (r.up) {
      case upstream::normal: break;
      case upstream::negative: x = -std::fabs(x); break;
      case upstream::tiny: x = std::ldexp(x, -50); break;
      case upstream::huge: x = std::ldexp(x, 30); break;
      case upstream::sparse: x *= random.below(8) == 0 ? 1 : 0; break;
      case upstream::like_v: x = 0.5 * x + h.v[i % h.v.size()]; break;
    }
  }
}

void store(rows const& from, std::vector<bf16_code>& to, row_strides s, std::int64_t head, std::int64_t d) {
  for (std::size_t i = 0; i < from.size(); ++i) to[std::size_t(s.offset(0, head, std::int64_t(i) / d)) + i % std::size_t(d)] = round_to<format::bf16>(double_double{from[i], 0});
}

}  // namespace

std::vector<std::string_view> later_regimes() {
  std::vector<std::string_view> names;
  for (later const& r : table) names.push_back(r.name);
  return names;
}

calibration_regime later_regime(std::string_view name) {
  const auto found = std::ranges::find(table, name, &later::name);
  if (found == table.end()) throw std::invalid_argument("no such regime: " + std::string(name));
  later const& r = *found;
  attention_problem p;
  p.key_heads = 1024 / r.d, p.heads = r.group * p.key_heads, p.queries = r.queries, p.keys = r.keys, p.head_dim = r.d;
  p.causal = r.causal;
  p.softmax_scale = r.scale == 0 ? 1 / std::sqrt(double(r.d)) : r.scale;
  p.q.resize(std::size_t(p.queries * p.heads * r.d)), p.d_o.resize(p.q.size());
  p.k.resize(std::size_t(p.keys * p.key_heads * r.d)), p.v.resize(p.k.size());
  study_random random(0x5eed + std::uint64_t(found - table.begin()));
  const auto normal = [&](std::int64_t n) {
    rows m(std::size_t(n * r.d));
    for (double& x : m) x = random.normal();
    return m;
  };
  for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
    head_numbers first;
    for (std::int64_t member = 0; member < r.group; ++member) {
      head_numbers h{normal(r.queries), normal(r.keys), normal(r.keys), normal(r.queries)};
      shape_scores(r, h, random), shape_values(r, h, random), shape_gradients(r, h, random);
      if (member == 0) first = h;
      store(h.q, p.q, p.query_strides(), key_head * r.group + member, r.d);
      store(h.d_o, p.d_o, p.query_strides(), key_head * r.group + member, r.d);
    }
    store(first.k, p.k, p.key_strides(), key_head, r.d);
    store(first.v, p.v, p.key_strides(), key_head, r.d);
  }
  return {std::string(name), std::move(p), r.biased};
}

}  // namespace stickybit::test
