#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "stickybit/format/code.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// FP32 `.ftz` scalar arithmetic by the integer definitions, and by the host; equal code for code.
struct defined_scalars {
  static f32_code fma(f32_code a, f32_code b, f32_code c) { return stickybit::fma(a, b, c, subnormals::flushed); }
  static f32_code add(f32_code a, f32_code b) { return stickybit::add(a, b, subnormals::flushed); }
  static f32_code mul(f32_code a, f32_code b) { return stickybit::mul(a, b, subnormals::flushed); }
  static bf16_code to_bf16(f32_code c) { return convert<format::bf16>(c); }
};
struct host_scalars {
  static f32_code fma(f32_code a, f32_code b, f32_code c) noexcept { return host::fma_ftz(a, b, c); }
  static f32_code add(f32_code a, f32_code b) noexcept { return host::add_ftz(a, b); }
  static f32_code mul(f32_code a, f32_code b) noexcept { return host::mul_ftz(a, b); }
  static bf16_code to_bf16(f32_code c) noexcept { return host::to_bf16(c); }
};

inline constexpr f32_code ln2 = f32_code::from_bits(0x3f317218);  ///< float(M_LN2)

/// L, the factor from a raw score to a base-2 exponent: float(double(float(scale)) · M_LOG2E), as the kernels' host code has it.
[[nodiscard]] f32_code scale_log2_of(double softmax_scale) noexcept;

/// Event: one block of keys has been taken into a row.
struct softmax_block {
  std::int64_t first_column;
  f32_code max_before, max_after;  ///< of the raw scores
  f32_code rescale;                ///< what earlier sums and O are multiplied by; 1 (and not applied) in the first block
  f32_code max_scaled;             ///< rn(m·L)
  std::array<f32_code, 4> lane_sums;
};
/// Event: one score has become a weight.
struct softmax_weight {
  std::int64_t column;
  f32_code score, argument, weight;
};
/// Event: the row is complete.
struct softmax_finished {
  f32_code max, sum, inverse_sum, lse;
};

/// The online softmax of one query row, FlashAttention-3's rounding points. State: the maximum m of the raw scores so far and
/// four partial sums, one for each of the four lanes that share a row of the accumulator: lane q owns the columns with
/// (column mod 8) / 2 = q, and adds them in ascending order.
/// @source flash-attention 0251105a hopper/softmax.h, and its machine code for what is fused
template <class Scalars>
class online_softmax {
 public:
  online_softmax(special_function_tables const& tables, f32_code scale_log2) : tables_(&tables), scale_log2_(scale_log2) {}

  /// Takes one block: scores become weights p, in place.
  /// @param scores       raw S of the block's columns, at least one, masked ones −inf; ascending from first_column, a multiple of 8
  /// @param guard_empty  a maximum of −inf counts as 0 (the kernel tests for it here)
  /// @returns            the factor for O; empty() tells before whether there is anything to rescale
  template <class Sink = null_sink>
  f32_code take_block(std::span<f32_code> scores, std::int64_t first_column, bool guard_empty, Sink&& sink = {}) {
    const f32_code before = max_;
    if (!seen_) max_ = scores.front();
    for (f32_code s : scores) max_ = stickybit::max(max_, s, subnormals::flushed);
    const f32_code guarded = guard_empty && is_minus_infinity(max_) ? f32_code::zero() : max_;
    const f32_code one = f32_code::from_bits(0x3f800000);
    const f32_code rescale = seen_ ? ex2(*tables_, Scalars::mul(Scalars::add(before, guarded.negated()), scale_log2_)) : one;
    const f32_code max_scaled = Scalars::mul(guarded, scale_log2_);

    std::array<bool, 4> fresh{true, true, true, true};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const f32_code argument = Scalars::fma(scores[i], scale_log2_, max_scaled.negated());
      const f32_code p = ex2(*tables_, argument);
      sink(softmax_weight{first_column + std::int64_t(i), scores[i], argument, p});
      scores[i] = p;
      const std::size_t lane = (i & 7) >> 1;
      f32_code& sum = lane_sums_[lane];
      if (!fresh[lane]) sum = Scalars::add(sum, p);
      else sum = seen_ ? Scalars::fma(rescale, sum, p) : p;  // one rounding: the compiler fuses the rescale with the first addition
      fresh[lane] = false;
    }
    seen_ = true;
    sink(softmax_block{first_column, before, max_, rescale, max_scaled, lane_sums_});
    return rescale;
  }

  [[nodiscard]] bool empty() const noexcept { return !seen_; }

  /// 1/sum and the natural logarithm of Σ exp(scale·S). A sum of 0 or NaN has inverse 0 and lse −inf.
  template <class Sink = null_sink>
  softmax_finished finish(Sink&& sink = {}) const {
    const f32_code sum = Scalars::add(Scalars::add(lane_sums_[0], lane_sums_[2]), Scalars::add(lane_sums_[1], lane_sums_[3]));
    softmax_finished row{max_, sum, f32_code::zero(), f32_code::infinity(true)};
    if (!sum.is_zero() && !sum.is_nan()) {
      row.inverse_sum = rcp(*tables_, sum);
      row.lse = Scalars::fma(Scalars::mul(scale_log2_, ln2), max_, Scalars::mul(lg2(*tables_, sum), ln2));
    }
    sink(row);
    return row;
  }

 private:
  static bool is_minus_infinity(f32_code c) noexcept { return c == f32_code::infinity(true); }

  special_function_tables const* tables_;
  f32_code scale_log2_;
  bool seen_ = false;
  f32_code max_ = f32_code::infinity(true);
  std::array<f32_code, 4> lane_sums_{};
};

}  // namespace stickybit
