#pragma once
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "measure.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/convert.hpp"

// What the benchmarks compute on: normal numbers from a fixed seed.

namespace stickybit::bench {

/// Written so that no loop is optimised away.
inline volatile std::uint32_t witness;

inline std::vector<float> normals(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(random);
  return x;
}

template <format F>
std::vector<code<F>> normal_codes(std::size_t count, std::uint64_t seed) {
  std::vector<code<F>> codes;
  for (float x : normals(count, seed)) codes.push_back(convert<F>(code_of(x)));
  return codes;
}

inline attention_problem head(std::int64_t sequence, std::int64_t head_dim) {
  attention_problem p;
  p.queries = p.keys = sequence;
  p.head_dim = head_dim;
  p.softmax_scale = 1 / std::sqrt(double(head_dim));
  const auto count = std::size_t(sequence * head_dim);
  p.q = normal_codes<format::bf16>(count, 3);
  p.k = normal_codes<format::bf16>(count, 4);
  p.v = normal_codes<format::bf16>(count, 5);
  p.d_o = normal_codes<format::bf16>(count, 7);
  return p;
}

void add_scalars(std::vector<comparison>& list);
void add_tensor_cores(std::vector<comparison>& list);
void add_identification(std::vector<comparison>& list);
void add_properties(std::vector<comparison>& list);
void add_attention(std::vector<comparison>& list);
void add_gemm_search(std::vector<comparison>& list);
void add_files(std::vector<comparison>& list);

/// s from 512, doubled to `longest`, d = 128.
[[nodiscard]] std::vector<growth_point> attention_growth(long long longest);

}  // namespace stickybit::bench
