#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "stickybit/rounding/bf16_of_double.hpp"

namespace stickybit::detail {

[[nodiscard]] inline double square(double x) noexcept { return x * x; }

/// The spacing of BF16 numbers at x.
[[nodiscard]] inline double bf16_ulp(double x) noexcept {
  const int e = std::max(int((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff) - 1023, -126);
  return std::bit_cast<double>(std::uint64_t(e - 7 + 1023) << 52);
}

/// The spacing of FP32 numbers at x.
[[nodiscard]] inline double f32_ulp(double x) noexcept { return bf16_ulp(x) * 0x1p-16; }

/// Spacing at the root of squares / count; 0 where the squares are.
[[nodiscard]] inline double bf16_ulp_at_rms(double squares, double count) noexcept { return squares == 0 ? 0 : bf16_ulp(std::sqrt(squares / count)); }
[[nodiscard]] inline double f32_ulp_at_rms(double squares, double count) noexcept { return squares == 0 ? 0 : f32_ulp(std::sqrt(squares / count)); }

/// A normal error: its mean and variance.
struct expected_error {
  double mean = 0, variance = 0;
};

/// What rounding makes of a known number x that carries a normal error e: the error of round(x + e) against x.
struct rounded_error {
  double mean = 0, variance = 0;
  double gain = 1;  ///< how much of e comes through, on average: Cov(error, e)/Var(e). 1 where e is wide beside an ulp
  double jumps = 0;   ///< the part of the variance that comes in steps of an ulp
  double fourth = 0;  ///< that, times the squared step
};

/// So close to a midpoint, in ulp, a value known without error lies on it.
inline constexpr double tie_width = 1e-7;

/// To BF16, nearest even. Where e is narrow beside the ulp, the place of x between two numbers decides; where it is wide, the rounding is
/// one more error, uniform in ±ulp/2.
[[nodiscard]] inline rounded_error round_to_bf16(double x, expected_error e) noexcept {
  const double y = x + e.mean, u = bf16_ulp(y), s = std::sqrt(e.variance) / u;
  if (s > 0.5) {
    // The ulp changes over the width of e: four points of Gauss and Hermite.
    const double deviation = s * u;
    double square = 0;
    for (double sign : {-1.0, 1.0}) {
      const double near = bf16_ulp(y + sign * 0.7419637843 * deviation), far = bf16_ulp(y + sign * 2.3344142183 * deviation);
      square += 0.4541241453 * near * near + 0.0458758548 * far * far;
    }
    return {e.mean, square / 12 + e.variance, 1, 0, 0};
  }
  double nearest = bf16_of_double(y);
  const double t = (y - nearest) / u;  // [−1/2, 1/2]
  if (s < tie_width && 0.5 - std::fabs(t) < tie_width) {
    // A tie, but for what double lost: to even.
    if (std::fmod(nearest / u, 2) != 0) nearest += std::copysign(u, t);
    return {nearest - x, 0, 0, 0, 0};
  }
  if (s == 0 || 0.5 - std::fabs(t) > 5 * s) return {nearest - x, 0, 0, 0, 0};
  // Thresholds at ±1/2 and ±3/2 around the nearest number: each is passed with a chance.
  double mean = 0, square = 0, gain = 0;
  for (double threshold : {0.5, 1.5, 2.5})
    for (double sign : {-1.0, 1.0}) {
      const double z = (sign * t - threshold) / s;  // passed outwards where e/s > −z
      const double chance = 0.5 * std::erfc(-z * 0.70710678118654752);
      mean += sign * chance;
      square += (2 * (threshold + 0.5) - 1) * chance;
      gain += 0.3989422804014327 * std::exp(-0.5 * z * z) / s;
    }
  const double variance = std::max(0.0, (square - mean * mean) * u * u);
  return {nearest + mean * u - x, variance, gain, variance, variance * u * u};
}

}  // namespace stickybit::detail
