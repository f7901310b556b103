#include <array>

#include "drawing.hpp"
#include "generator_parts.hpp"
#include "stickybit/study/regimes.hpp"

namespace stickybit::detail {
namespace {

/// From layout s,h,d with all batch elements' heads side by side to b,s,h,d.
std::vector<bf16_code> by_batch(std::vector<bf16_code> const& from, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t d) {
  std::vector<bf16_code> to(from.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        std::copy_n(from.begin() + ((i * batch + b) * heads + h) * d, d, to.begin() + ((b * rows + i) * heads + h) * d);
  return to;
}

/// A regime of the stage `study`, at the problem's sizes.
void take_regime(attention_problem& p, study_random& random, regime_kind kind, double a, double d_o = 1) {
  const bool needs_groups = is_tied(kind);
  if (needs_groups && (p.keys < 24 || p.head_dim < 8)) kind = regime_kind::ties;
  const named_regime r{.name = "case", .kind = kind, .a = a, .queries = p.queries, .keys = p.keys, .heads = p.batch * p.heads, .key_heads = p.batch * p.key_heads, .head_dim = p.head_dim, .d_o = d_o};
  const attention_problem made = generate(r, random.next());
  p.q = by_batch(made.q, p.batch, p.queries, p.heads, p.head_dim);
  p.k = by_batch(made.k, p.batch, p.keys, p.key_heads, p.head_dim);
  p.v = by_batch(made.v, p.batch, p.keys, p.key_heads, p.head_dim);
  if (!p.d_o.empty()) p.d_o = by_batch(made.d_o, p.batch, p.queries, p.heads, p.head_dim);
}
template <regime_kind Kind, int A10, int DO1000 = 1000>
void regime(case_space const&, attention_problem& p, study_random& random) {
  take_regime(p, random, Kind, A10 / 10.0, DO1000 / 1000.0);
}

void bell_all(attention_problem& p, study_random& random, double q = 1, double k = 1, double v = 1) {
  fill_bell(p.q, random, q);
  fill_bell(p.k, random, k);
  fill_bell(p.v, random, v);
  fill_bell(p.d_o, random);
}
void gauss(case_space const&, attention_problem& p, study_random& random) { bell_all(p, random, one_in(random, 3) ? 3 : 1); }
void thousands(case_space const&, attention_problem& p, study_random& random) { bell_all(p, random, 64, 16); }
void tiny(case_space const&, attention_problem& p, study_random& random) {
  bell_all(p, random, 4, 1, 0x1p-124);
  for (bf16_code& c : p.d_o) c = bf16_of(to_double(c) * 0x1p-30);
  each_key(p, [&](auto b, auto h, auto j) {
    if (j % 3 == 0)
      for (std::int64_t c = 0; c < p.head_dim; ++c) p.v[key_at(p, b, h, j, c)] = bf16_of(to_double(p.v[key_at(p, b, h, j, c)]) * 0x1p-6);
  });
}
void subnormal_weights(case_space const&, attention_problem& p, study_random& random) {
  bell_all(p, random, 9, 4);
  for (bf16_code& c : p.d_o) c = bf16_of(to_double(c) * 0x1p-60);
}
void huge(case_space const&, attention_problem& p, study_random& random) { bell_all(p, random, 0x1p62, 0x1p62); }

/// A class boundary of the format or a neighbour, of magnitudes that do not overflow a score.
bf16_code boundary(study_random& random, bool finite) {
  static constexpr std::array<std::uint16_t, 12> corners{0x0000, 0x0001, 0x007f, 0x0080, 0x3f80, 0x3f00, 0x4000, 0x3c00, 0x4300, 0x1f80, 0x7f7f, 0x7f80};
  const std::int64_t n = finite ? 9 : std::int64_t(corners.size());
  auto magnitude = std::int64_t(corners[std::size_t(random.below(n))]) + random.below(3) - 1;
  if (magnitude < 0) magnitude = 0;
  return bf16_code::from_bits(std::uint16_t(magnitude | (one_in(random, 2) ? 0x8000 : 0)));
}
void boundaries(case_space const& s, attention_problem& p, study_random& random) {
  const bool finite = s.finite || !one_in(random, 3);
  for (auto* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code& c : *codes) c = boundary(random, finite);
}
void all_bits(case_space const&, attention_problem& p, study_random& random) {
  for (auto* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code& c : *codes) c = bf16_code::from_bits(std::uint16_t(random.next() >> 48));
}

/// Equal scores, so that every weight is 1. V of pairs whose mean lies halfway between two numbers of BF16, and a left-over at every alignment.
void rounding_ties(case_space const&, attention_problem& p, study_random& random) {
  fill_bell(p.k, random);
  fill_bell(p.d_o, random);
  each_key(p, [&](auto b, auto h, auto j) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      const bool low = j % 2 == 0;
      const auto fraction = std::uint16_t(c * 2 % 127);
      p.v[key_at(p, b, h, j, c)] = bf16_code::from_bits(std::uint16_t(0x3f80 + fraction + (low ? 0 : 1)));
    }
  });
  if (one_in(random, 2)) return;
  const std::int64_t where = random.below(p.keys);  // one key carries ±2^-c beside its number's place
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.key_heads; ++h)
      for (std::int64_t c = 0; c < p.head_dim; ++c) p.v[key_at(p, b, h, where, c)] = code_at(random, -int(c % 40), one_in(random, 2));
}

/// Products of a chain whose exponents differ by everything up to beyond the alignment of a tensor core.
void alignments(case_space const&, attention_problem& p, study_random& random) {
  bell_all(p, random);
  const auto spread = [&](std::vector<bf16_code>& codes, int low, int high) {
    for (bf16_code& c : codes) c = code_at(random, low + int(random.below(high - low + 1)), one_in(random, 2));
  };
  spread(p.q, -14, 1);
  spread(p.k, -14, 1);
  spread(p.v, -26, 1);
}

/// The first column alone makes the scores; the other columns of q are 0.
void set_scores(attention_problem& p, study_random& random, auto score_of_key) {
  fill_bell(p.k, random);
  fill_bell(p.v, random);
  fill_bell(p.d_o, random);
  for (bf16_code& c : p.q) c = bf16_code::zero();
  each_query(p, [&](auto b, auto h, auto i) { p.q[query_at(p, b, h, i, 0)] = bf16_of(1); });
  each_key(p, [&](auto b, auto h, auto j) { p.k[key_at(p, b, h, j, 0)] = bf16_of(score_of_key(j) / p.softmax_scale); });
}
/// The maximum grows from key to key, or falls, so that every block rescales, or none but the first does.
void staircase(case_space const&, attention_problem& p, study_random& random) {
  const double step = one_in(random, 2) ? 0.01 : 0.2, sign = one_in(random, 2) ? 1 : -1;
  set_scores(p, random, [&](std::int64_t j) { return sign * step * double(j); });
}
/// The winner stands at an end, or at the edge of a tile: masks and loops that are off by one lose it, or find another.
void edge_winner(case_space const&, attention_problem& p, study_random& random) {
  const std::int64_t width = 16 << random.below(4), at = one_in(random, 3) ? p.keys - 1 : one_in(random, 2) ? 0 : std::min(p.keys - 1, width * random.below(p.keys / width + 1));
  const double lead = one_in(random, 2) ? 20 : 4;
  set_scores(p, random, [&](std::int64_t j) { return j == at ? lead : 0.1 * bell(random); });
  each_key(p, [&](auto b, auto h, auto j) {
    if (j == at) p.v[key_at(p, b, h, j, random.below(p.head_dim))] = bf16_of(7);
  });
}
void sentinels(case_space const& s, attention_problem& p, study_random& random) {
  static constexpr std::array values{-1e4, 1e4, -65504.0, -1e9, 65504.0, -1e30, -3.3e38, 3e38};
  const double sentinel = values[std::size_t(random.below(s.finite ? 3 : values.size()))];
  const bool all = one_in(random, 4);
  const double times = std::fabs(sentinel) < 1e30 ? 1 / p.softmax_scale : 1;
  set_scores(p, random, [&](std::int64_t) { return 0.0; });
  each_key(p, [&](auto b, auto h, auto j) { p.k[key_at(p, b, h, j, 0)] = all || one_in(random, 3) ? bf16_of(sentinel * times) : bf16_of(bell(random)); });
}
/// Scores that no sum rounds; ties in plenty.
void integers(case_space const&, attention_problem& p, study_random& random) {
  p.softmax_scale = 0.125;
  const auto whole = [&](std::vector<bf16_code>& codes, std::int64_t most) {
    for (bf16_code& c : codes) c = bf16_of(double(random.below(2 * most + 1) - most));
  };
  whole(p.q, 2);
  whole(p.k, 2);
  whole(p.v, 60);
  whole(p.d_o, 3);
}
void sparse(case_space const&, attention_problem& p, study_random& random) {
  bell_all(p, random, 2);
  for (auto* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code& c : *codes)
      if (!one_in(random, 8)) c = bf16_code::zero(one_in(random, 2));
}

}  // namespace

void append_number_generators(std::vector<generator>& all) {
  constexpr auto part = generator_part::numbers;
  all.insert(all.end(), {
    {"gauss", part, "what everybody tests with", true, 4, gauss},
    {"late", part, "a checkpoint's late head: a large mean key, rows nearly one-hot", true, 1, regime<regime_kind::late, 60, 10>},
    {"hot", part, "a mean key tens of sigmas large: scores whose differences are small beside them", true, 1, regime<regime_kind::hot, 200, 1>},
    {"key-mean", part, "keys with a common offset: dQ along it is a sum that cancels", true, 1, regime<regime_kind::key_mean, 40>},
    {"ties", part, "every maximum twice in a row, side by side: weights of exactly 1; V and dO of one sign", true, 2, regime<regime_kind::ties, 30>},
    {"tied-pair", part, "two keys share the maximum and their V needs one bit more than BF16: the sum P V is biased by its cast", true, 1, regime<regime_kind::tied_pair, 10>},
    {"tied-apart", part, "the same maximum in two blocks of keys: the factor between them is exactly 1", true, 2, regime<regime_kind::tied_apart, 10>},
    {"tied-negative", part, "ties far below 0: maxima that begin at 0 instead of minus infinity", true, 1, regime<regime_kind::tied_negative, -10>},
    {"tied-zero", part, "the maximum is exactly 0", true, 1, regime<regime_kind::tied_zero, 10>},
    {"negative", part, "all scores below 0: padding that counts as score 0 wins", true, 2, regime<regime_kind::negative, 20>},
    {"one-signed", part, "V and dO of one sign: every rounding of a sum points the same way", true, 1, regime<regime_kind::one_signed, 10>},
    {"value-mean", part, "dP and delta large and nearly equal", true, 1, regime<regime_kind::value_mean, 80>},
    {"one-hot", part, "each row has one winner by far: weights that vanish, dS that is all cancellation", true, 1, regime<regime_kind::one_hot, 20>},
    {"correlated", part, "q, k and v belong together, as in a trained head", true, 1, regime<regime_kind::correlated, 10>},
    {"thousands", part, "scores in the thousands: m L rounds by more than a weight is wide", true, 1, thousands},
    {"tiny", part, "V and O subnormal, dO small: what flushes, and where", true, 1, tiny},
    {"subnormal-weights", part, "weights in and below the subnormal range", true, 1, subnormal_weights},
    {"huge", part, "scores beyond FP32: infinite scores, infinity less infinity", false, 1, huge},
    {"boundaries", part, "every class and boundary of BF16 and its neighbours", false, 2, boundaries},
    {"all-bits", part, "every code equally likely", false, 1, all_bits},
    {"rounding-ties", part, "equal scores and means halfway between two numbers, with a left-over at every alignment", true, 2, rounding_ties},
    {"alignments", part, "products whose exponents differ by more than a tensor core aligns", true, 3, alignments},
    {"staircase", part, "maxima that grow, or fall, from key to key: rescaling in every block", true, 3, staircase},
    {"edge-winner", part, "one key at an end or the edge of a tile has nearly all the weight", true, 3, edge_winner},
    {"sentinels", part, "scores of -1e4, -65504, -1e9, -3e38, as masks are faked with", true, 2, sentinels},
    {"integers", part, "scores that are exact in FP32: what differs is no sum's rounding", true, 1, integers},
    {"sparse", part, "zeros of both signs among few numbers", true, 1, sparse},
  });
}

}  // namespace stickybit::detail
