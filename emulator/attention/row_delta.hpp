#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "stickybit/schedule/backward_rules.hpp"
#include "stickybit/softmax/lane_sums.hpp"

namespace stickybit::detail {

constexpr std::size_t lanes_of_delta(delta_sum order, std::size_t d) noexcept {
  switch (order) {
    case delta_sum::serial: return 1;
    case delta_sum::eight_lanes: return 8;
    case delta_sum::few_lanes: return std::bit_ceil(std::max<std::size_t>(1, d / 32));
    default: return std::bit_ceil(d / 8);
  }
}

/// rowsum(dO ∘ O) of one row, in the lanes of the kernel's preprocessing; O as FP32 codes.
/// @source flash-attention 0251105a hopper/flash_bwd_preprocess_kernel.h, csrc/flash_attn/src/flash_bwd_preprocess_kernel.h and kernel_traits.h
///          few_lanes: PyTorch aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h, computeDelta
/// @pre     order is one of the five that add lanes; d is a multiple of 8
template <class Scalars>
typename Scalars::number delta_in_lanes(delta_sum order, std::span<typename Scalars::input const> d_o, std::span<typename Scalars::number const> o) {
  using number = typename Scalars::number;
  const std::size_t d = d_o.size(), lanes = lanes_of_delta(order, d);
  const std::size_t run = order == delta_sum::serial ? d : 8, stride = order == delta_sum::serial ? d : 8 * lanes;
  std::vector<number> sums(lanes, f32_code::zero());
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    number sum = f32_code::zero();
    bool first = true;
    for (std::size_t begin = lane * run; begin < d; begin += stride)
      for (std::size_t j = begin; j < std::min(begin + run, d); ++j) {
        if (order == delta_sum::pairs_of_eight) {
          sum = Scalars::add(sum, Scalars::fma(widen(d_o[j]), o[j], Scalars::mul(widen(d_o[j + 1]), o[j + 1])));
          ++j;
        } else if (first && j + 1 < d) {
          sum = Scalars::fma(widen(d_o[j]), o[j], Scalars::mul(widen(d_o[j + 1]), o[j + 1]));
          first = false;
          ++j;
        } else {
          sum = Scalars::fma(widen(d_o[j]), o[j], sum);
        }
      }
    sums[lane] = sum;
  }
  if (order == delta_sum::few_lanes)
    for (std::size_t step = 1; step < lanes; step *= 2)
      for (std::size_t i = 0; i < lanes; i += 2 * step) sums[i] = Scalars::add(sums[i], sums[i + step]);
  else
    for (std::size_t half = lanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) sums[i] = Scalars::add(sums[i], sums[i + half]);
  return sums[0];
}

/// The stored O of one row, and what it was before its cast where a schedule keeps that.
template <class Scalars>
struct stored_output {
  std::span<typename Scalars::narrow const> bf16;
  std::span<typename Scalars::number const> fp32;
};

/// The same from whichever O the rules name.
template <class Scalars>
typename Scalars::number delta_from_output(backward_rules const& rules, std::span<typename Scalars::input const> d_o, stored_output<Scalars> stored) {
  using number = typename Scalars::number;
  if (rules.delta_from == delta_source::fp32_output) return delta_in_lanes<Scalars>(rules.delta, d_o, stored.fp32);
  std::vector<number> o(d_o.size());
  Scalars::widen(stored.bf16, o);
  const number high = delta_in_lanes<Scalars>(rules.delta, d_o, o);
  if (rules.delta_from == delta_source::bf16_output) return high;
  for (std::size_t j = 0; j < o.size(); ++j) o[j] = widen(Scalars::to_bf16(Scalars::add(stored.fp32[j], widen(stored.bf16[j]).negated())));
  return Scalars::add(high, delta_in_lanes<Scalars>(rules.delta, d_o, o));
}

/// A sum in the four lanes of a forward row sum: lane q takes the columns with (column mod 8) / 2 = q.
template <class Scalars>
struct four_lanes {
  using number = typename Scalars::number;
  std::array<number, 4> lanes{};
  /// Columns from a multiple of 8 on.
  void add(std::span<number const> x) { Scalars::add_in_lanes(x, lanes); }
  void add_product(std::size_t column, number x, number y) { at(column) = Scalars::fma(x, y, at(column)); }
  [[nodiscard]] number joined() const { return Scalars::add(Scalars::add(lanes[0], lanes[2]), Scalars::add(lanes[1], lanes[3])); }

 private:
  number& at(std::size_t column) { return lanes[lane_of(column)]; }
};

}  // namespace stickybit::detail
