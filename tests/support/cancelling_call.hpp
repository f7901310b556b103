#pragma once
#include <algorithm>

#include "support/random_calls.hpp"

namespace stickybit {

/// The parts of blocks 0 and 1 nearly cancel, those of the others are as small as what is left: the order shows. Blocks of 128 keys, d = 64.
inline attention_problem cancelling_call(std::int64_t queries, std::int64_t keys, std::uint64_t seed, bool causal = false) {
  attention_problem p = call_of(queries, keys, 64, causal);
  std::mt19937_64 random(seed);
  const auto block = std::size_t(128 * 64), size = std::size_t(keys * 64);
  p.q = random_codes(std::size_t(queries * 64), 0x1p-17, random);
  p.d_o = random_codes(p.q.size(), 1, random);
  p.k = random_codes(size, 1, random);
  p.v = random_codes(size, 1, random);
  for (std::size_t i = block; i < std::min(size, 2 * block); ++i) {
    p.k[i] = p.k[i - block].negated();
    p.v[i] = p.v[i - block];
  }
  for (std::size_t i = 2 * block; i < size; ++i) p.k[i] = convert<format::bf16>(code_of(to_float(widen(p.k[i])) * 0x1p-17f));
  return p;
}

}  // namespace stickybit
