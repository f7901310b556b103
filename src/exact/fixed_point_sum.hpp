#pragma once
// Private to the stage.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "stickybit/exact/double_double.hpp"

namespace stickybit {

/// A sum of products of two finite BF16 numbers, without any rounding: Σ_i digits[i]·2^(32·i − 288). A product is 0 or of magnitude in
/// [2^-266, 2^256), with a significand of at most 16 bits, so its 16-bit form has a last bit between 2^-281 and 2^240.
/// Digits are signed and carry only in normalise(), so up to 2^30 products may be added.
class fixed_point_sum {
 public:
  /// @pre product is 0 or as described above
  void add(double product) noexcept;

  /// Digits into [0, 2^32), except the top one, which keeps the sign.
  void normalise() noexcept;

  /// The difference, normalised.  @pre both are normalised
  [[nodiscard]] fixed_point_sum minus(fixed_point_sum const& other) const noexcept;

  /// Relative error ≤ 5u².  @pre normalised
  [[nodiscard]] double_double value() const noexcept;

  /// @pre both are normalised
  [[nodiscard]] std::strong_ordering operator<=>(fixed_point_sum const& other) const noexcept;
  [[nodiscard]] bool operator==(fixed_point_sum const& other) const noexcept = default;

 private:
  static constexpr int lowest_exponent = -288;
  static constexpr std::size_t count = 20;  ///< 2^256 · 2^30 products < 2^(32·19 − 288)
  std::array<std::int64_t, count> digits_{};
};

}  // namespace stickybit
