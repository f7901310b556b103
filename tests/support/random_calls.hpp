#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {

/// One head, layout s,h,d, scale 1/√d.
inline attention_problem call_of(std::int64_t queries, std::int64_t keys, std::int64_t head_dim, bool causal) {
  attention_problem p;
  p.queries = queries;
  p.keys = keys;
  p.head_dim = head_dim;
  p.causal = causal;
  p.softmax_scale = 1 / std::sqrt(double(head_dim));
  return p;
}

/// Rows of d elements, where `from_strides` put them, to where `to_strides` do.
inline std::vector<bf16_code> in_order(std::vector<bf16_code> const& from, row_strides from_strides, row_strides to_strides, std::int64_t batch, std::int64_t heads, std::int64_t rows,
                                       std::int64_t d) {
  std::vector<bf16_code> to(from.size());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from.begin() + from_strides.offset(b, h, i), d, to.begin() + to_strides.offset(b, h, i));
  return to;
}

/// What the numbers of a random call are like; each exposes something.
enum class regime {
  gauss,
  large_scores,  ///< nearly one-hot rows; exponents far below 0
  ties,          ///< every odd key equals the even one before it; V of one sign
  subnormal,     ///< V and Q so small that products leave FP32's normal range
  huge,          ///< scores beyond FP32's range
  specials,      ///< infinities and NaN in Q, K and V
  all_bits,      ///< every code equally likely
};
inline constexpr std::array all_regimes{regime::gauss, regime::large_scores, regime::ties, regime::subnormal, regime::huge, regime::specials, regime::all_bits};

inline std::vector<bf16_code> random_codes(std::size_t count, double scale, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<bf16_code> codes(count);
  for (bf16_code& c : codes) c = convert<format::bf16>(code_of(float(normal(random) * scale)));
  return codes;
}

/// Fills q, k and v of a problem whose sizes are set.
inline void fill(attention_problem& p, regime r, std::mt19937_64& random) {
  const auto queries = std::size_t(p.batch * p.heads * p.queries * p.head_dim), keys = std::size_t(p.batch * p.key_heads * p.keys * p.head_dim);
  const double spread = r == regime::large_scores ? 8 : r == regime::huge ? 0x1p62 : r == regime::subnormal ? 0x1p-40 : 1;
  p.q = random_codes(queries, spread, random);
  p.k = random_codes(keys, spread, random);
  p.v = random_codes(keys, r == regime::subnormal ? 0x1p-126 : 1, random);
  const auto any = [&](std::vector<bf16_code>& codes) -> bf16_code& { return codes[random() % codes.size()]; };
  if (r == regime::ties) {
    const std::int64_t stride = p.key_strides().row;
    for (std::size_t i = 0; i < keys; ++i) {
      if ((std::int64_t(i) / stride) % 2 == 1) p.k[i] = p.k[i - std::size_t(stride)];
      p.v[i] = bf16_code::from_bits(p.v[i].to_bits() | bf16_code::sign_bit);
    }
  }
  if (r == regime::specials)
    for (std::vector<bf16_code>* codes : {&p.q, &p.k, &p.v}) {
      if (codes->empty()) continue;
      any(*codes) = bf16_code::infinity(random() % 2 == 0);
      if (random() % 2 == 0) any(*codes) = bf16_code::nan();
      any(*codes) = bf16_code::zero(true);
    }
  if (r == regime::all_bits)
    for (std::vector<bf16_code>* codes : {&p.q, &p.k, &p.v})
      for (bf16_code& c : *codes) c = bf16_code::from_bits(std::uint16_t(random()));
}

}  // namespace stickybit
