#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

#include "stickybit/identify/unit_probe.hpp"

// Operands that are hard for a unit, in any format. An exponent is that of a product as the operands' sum, or of c.

namespace stickybit::detail {

/// Exponents of a format's numbers that have a power of two.
struct exponent_range {
  int lowest;         ///< of the smallest subnormal
  int lowest_normal;
  int highest;
};
[[nodiscard]] exponent_range exponents_of(format f) noexcept;

/// ± 2^e, which may be subnormal. @pre lowest ≤ e ≤ highest
[[nodiscard]] std::uint64_t power_bits(format f, bool negative, int e) noexcept;
/// 0 of a sign where the format has it.
[[nodiscard]] std::uint64_t zero_bits(format f, bool negative) noexcept;

/// What a case is about.
enum class case_kind : std::uint8_t {
  // Nothing is subnormal, zero only by itself, infinite or near the clamp.
  narrow, spread, cancelling, large_c, c_cancels, powers,
  // Near the smallest numbers.
  tiny, tiny_powers, clamp, signed_zeros, zero_by_large, subnormal_operands,
  overflow, low_bits, special, any_bits,
};
inline constexpr std::array ordinary_kinds{case_kind::narrow, case_kind::spread, case_kind::cancelling, case_kind::large_c, case_kind::c_cancels, case_kind::powers};
inline constexpr std::array small_kinds{case_kind::tiny, case_kind::tiny_powers, case_kind::clamp, case_kind::signed_zeros, case_kind::zero_by_large, case_kind::subnormal_operands};
inline constexpr std::array large_kinds{case_kind::overflow};
inline constexpr std::array low_bit_kinds{case_kind::low_bits};
inline constexpr std::array all_kinds{case_kind::narrow,       case_kind::spread, case_kind::cancelling,   case_kind::large_c,       case_kind::c_cancels,          case_kind::powers,
                                      case_kind::tiny,         case_kind::tiny_powers, case_kind::clamp,   case_kind::signed_zeros,  case_kind::zero_by_large,      case_kind::subnormal_operands,
                                      case_kind::overflow,     case_kind::low_bits, case_kind::special, case_kind::any_bits};

/// Random cases of one black box's formats.
class case_maker {
 public:
  case_maker(unit_formats const& formats, std::uint64_t seed);

  [[nodiscard]] unit_case make(case_kind kind);
  /// Of any of these kinds in turn.
  [[nodiscard]] unit_case make(std::span<case_kind const> kinds) { return make(kinds[turn_++ % kinds.size()]); }

  /// Every product +0 · +0, c = +0.
  [[nodiscard]] unit_case blank() const;
  /// Product k becomes ± 2^e. @pre lowest_product() ≤ e ≤ highest_product()
  void put_power(unit_case& x, std::size_t k, bool negative, int e);
  void put_c_power(unit_case& x, bool negative, int e) const;
  [[nodiscard]] int lowest_product() const noexcept { return a_.lowest + b_.lowest; }
  [[nodiscard]] int lowest_normal_product() const noexcept { return a_.lowest_normal + b_.lowest_normal; }
  [[nodiscard]] int highest_product() const noexcept { return a_.highest + b_.highest; }
  [[nodiscard]] unit_formats const& formats() const noexcept { return formats_; }
  [[nodiscard]] int between(int low, int high) { return low + int(random_() % std::uint64_t(std::max(high - low, 0) + 1)); }
  [[nodiscard]] bool one_in(int n) { return between(1, n) == 1; }

 private:
  [[nodiscard]] std::uint64_t number(format f, bool negative, int e);
  void split(int e, int& e_a, int& e_b, bool normal);
  void put_product(unit_case& x, std::size_t k, int e);
  void put_c(unit_case& x, int e);
  [[nodiscard]] int ordinary_level();
  [[nodiscard]] int output_lowest() const noexcept { return exponents_of(formats_.output).lowest_normal; }
  void fill_cancelling(unit_case& x, int level);
  void fill_powers(unit_case& x, int level, int reach, int floor);
  void fill_large_c(unit_case& x, int level);
  void fill_clamp(unit_case& x);
  void fill_signed_zeros(unit_case& x);
  void fill_zero_by_large(unit_case& x);
  void fill_cancelled_subnormals(unit_case& x);
  void fill_subnormal_operands(unit_case& x);
  void fill_overflow(unit_case& x);
  void fill_special(unit_case& x);
  [[nodiscard]] std::uint64_t special(format f);
  void fill_any_bits(unit_case& x);
  void keep_c_in_format(unit_case& x) const;

  unit_formats formats_;
  exponent_range a_, b_;
  std::size_t k_, turn_ = 0;
  std::mt19937_64 random_;
};

}  // namespace stickybit::detail
