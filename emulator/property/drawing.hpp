#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/study/random.hpp"

// What makers of cases draw with.

namespace stickybit::detail {

[[nodiscard]] inline bf16_code bf16_of(double x) { return convert<format::bf16>(code_of(float(x))); }

/// Mean 0, variance 1, never beyond 3.5; one draw. Exact sums of integers, so the same on every platform.
[[nodiscard]] inline double bell(study_random& random) {
  const std::uint64_t bits = random.next();
  const auto sum = std::int64_t((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 131070;
  return double(sum) * 0x1.bb67ae8584caap-16;  // √3 · 2^-16
}

[[nodiscard]] inline bool one_in(study_random& random, std::int64_t n) { return random.below(n) == 0; }

/// A random code of exponent e: 2^e ≤ |x| < 2^(e+1).
[[nodiscard]] inline bf16_code code_at(study_random& random, int e, bool negative) {
  return bf16_code::from_bits(std::uint16_t((negative ? 0x8000 : 0) | (e + 127) << 7 | random.below(128)));
}

inline void fill_bell(std::vector<bf16_code>& codes, study_random& random, double times = 1) {
  for (bf16_code& c : codes) c = bf16_of(bell(random) * times);
}

/// Sizes q, k, v and, where wanted, dO; what was there is lost.
inline void size_tensors(attention_problem& p, bool gradients) {
  p.q.assign(std::size_t(p.batch * p.heads * p.queries * p.head_dim), bf16_code::zero());
  p.k.assign(std::size_t(p.batch * p.key_heads * p.keys * p.head_dim), bf16_code::zero());
  p.v = p.k;
  p.d_o.assign(gradients ? p.q.size() : 0, bf16_code::zero());
}

/// Element of a key tensor, or of a query tensor.
[[nodiscard]] inline std::size_t key_at(attention_problem const& p, std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t c) {
  return std::size_t(p.key_strides().offset(b, h, j) + c);
}
[[nodiscard]] inline std::size_t query_at(attention_problem const& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return std::size_t(p.query_strides().offset(b, h, i) + c);
}

/// Every key row, or every query row: f(batch, head, row).
template <class F>
void each_key(attention_problem const& p, F f) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.key_heads; ++h)
      for (std::int64_t j = 0; j < p.keys; ++j) f(b, h, j);
}
template <class F>
void each_query(attention_problem const& p, F f) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t i = 0; i < p.queries; ++i) f(b, h, i);
}

}  // namespace stickybit::detail
