#pragma once
#include <array>
#include <cstdint>

#include "case_format.hpp"
#include "random_codes.hpp"

namespace stickybit::gpu {

inline constexpr int max_case_products = 64;

/// c + Σ_{k<size} a[k]·b[k] as raw codes. c is an FP32 code, also where the unit's c is FP16: then it is the exact value of one;
/// FP64 for FP64.
struct unit_case {
  std::array<std::uint64_t, max_case_products> a{}, b{};
  std::uint64_t c = 0;
  int size = 0;  ///< products: a multiple of the instruction's k
};

/// What a generator must know of a unit to aim at its rules.
struct case_shape {
  case_format a, b, output;
  int k;                     ///< products of one instruction
  int block;                 ///< products aligned together, at most k
  int fraction_bits;         ///< F: terms are cut at 2^(E−F)
  int min_exponent;          ///< E is at least this
  int output_fraction_bits;  ///< that results keep: 13 for some FP32 results, else the format's
};

/// Which significands a product is made of.
enum class significands : std::uint8_t {
  any,
  powers,      ///< 1 · 1
  all_ones,    ///< both all ones: the product is just below 4
  below_two,   ///< 1 · all ones: just below 2
  above_two,   ///< 1.5 · 1.5 or more, so at least 2.25
};

/// One case being made. No call takes two random arguments, or a random one beside others that draw: compilers differ in their order.
/// "Product exponent" is the sum of the operands' exponents, not normalised: what takes part in the alignment.
class case_maker {
 public:
  constexpr case_maker(case_shape const& shape, random_codes& random, std::uint64_t index, int instructions) noexcept
      : shape(shape), random(random), index(index), normal_a_{shape.a.e_min(), shape.a.e_max()}, normal_b_{shape.b.e_min(), shape.b.e_max()},
        all_a_{shape.a.e_lowest(), shape.a.e_max()}, all_b_{shape.b.e_lowest(), shape.b.e_max()} {
    x.size = shape.k * instructions;
  }

  case_shape const& shape;
  random_codes& random;
  std::uint64_t index;  ///< of the case in its stream: what sweeps go by
  unit_case x;

  [[nodiscard]] constexpr int size() const noexcept { return x.size; }
  [[nodiscard]] constexpr int lowest_product() const noexcept { return all_a_.low + all_b_.low; }
  [[nodiscard]] constexpr int highest_product() const noexcept { return all_a_.high + all_b_.high; }
  [[nodiscard]] constexpr int clip(int e) const noexcept { return std::clamp(e, lowest_product(), highest_product()); }
  /// A product exponent at which another one can lie F and two more bits below, as often as the formats allow that.
  [[nodiscard]] constexpr int roomy_level() noexcept {
    const int low = std::max(lowest_product() + shape.fraction_bits + 2, -20), high = std::min(highest_product() - 1, 20);
    return low < high ? random.between(low, high) : high;
  }

  /// Product k := ± of exponent e, or of the nearest there is.
  constexpr void put(int k, int e, significands of, bool negative) noexcept {
    e = clip(e);
    const auto split = [&](range a, range b) { return range{std::max(a.low, e - b.high), std::min(a.high, e - b.low)}; };
    range e_a = split(normal_a_, normal_b_);  // normal operands where possible
    if (e_a.low > e_a.high) e_a = split(all_a_, all_b_);
    const int middle = std::clamp(e / 2, e_a.low, e_a.high);  // operands within 12 binades of each other's half
    const std::uint64_t choice = random.bits();
    const bool a_negative = (choice & 1) != 0, swapped = (choice & 2) != 0;
    const int low = std::max(e_a.low, middle - 12), high = std::min(e_a.high, middle + 12);
    const int chosen = low + int((choice >> 32) * std::uint64_t(high - low + 1) >> 32);
    std::uint64_t a_fraction = 0, b_fraction = 0;
    switch (of) {
      case significands::any: a_fraction = random.bits(), b_fraction = random.bits(); break;
      case significands::powers: break;
      case significands::all_ones: a_fraction = b_fraction = ~std::uint64_t{0}; break;
      case significands::below_two: (swapped ? a_fraction : b_fraction) = ~std::uint64_t{0}; break;
      case significands::above_two:
        a_fraction = random.bits() | shape.a.hidden_bit() >> 1;
        b_fraction = random.bits() | shape.b.hidden_bit() >> 1;
        break;
    }
    set(k, shape.a.number(a_negative, chosen, a_fraction), shape.b.number(a_negative != negative, e - chosen, b_fraction));
  }
  constexpr void put(int k, int e, significands of = significands::any) noexcept { put(k, e, of, random.one_in(2)); }

  constexpr void set(int k, std::uint64_t a, std::uint64_t b) noexcept {
    x.a[std::size_t(k)] = a;
    x.b[std::size_t(k)] = b;
  }
  /// Product `to` := − product `from`, exactly.
  constexpr void put_negated(int to, int from) noexcept {
    set(to, x.a[std::size_t(from)] ^ shape.a.sign(), x.b[std::size_t(from)]);
  }
  /// A zero product; `large`: of a zero and any other number.
  constexpr void put_zero(int k, bool large = false) noexcept {
    const std::uint64_t zero_a = shape.a.code(random.one_in(2), 0), zero_b = shape.b.code(random.one_in(2), 0);
    if (!large) set(k, zero_a, zero_b);
    else if (random.one_in(2)) set(k, zero_a, any_finite(shape.b));
    else set(k, any_finite(shape.a), zero_b);
  }
  [[nodiscard]] constexpr std::uint64_t any_finite(case_format f) noexcept {
    const std::uint64_t magnitude = random.bits() % (f.largest() + 1);
    return f.code(random.one_in(2), magnitude);
  }

  /// c := a code of the output format.
  constexpr void put_c(std::uint64_t code) noexcept {
    constexpr case_format f16 = f16_format;  // for nvcc, as in widen_f16()
    x.c = shape.output == f16 ? widen_f16(code) : code;
  }
  constexpr void put_c(bool negative, int e, std::uint64_t fraction) noexcept {
    put_c(shape.output.number(negative, std::clamp(e, shape.output.e_lowest(), shape.output.e_max()), fraction));
  }
  /// c := any number of exponent e, or of the nearest there is.
  constexpr void put_c_at(int e) noexcept {
    const std::uint64_t fraction = random.bits();
    put_c(random.one_in(2), e, fraction);
  }
  constexpr void put_c_zero() noexcept { put_c(shape.output.code(random.one_in(2), 0)); }
  constexpr void put_c_subnormal() noexcept {
    const std::uint64_t magnitude = random.bits() % shape.output.hidden_bit();
    put_c(shape.output.code(random.one_in(2), magnitude));
  }
  /// The least positive number of the output is 2^ this.
  [[nodiscard]] constexpr int output_quantum() const noexcept { return shape.output.e_lowest(); }

 private:
  struct range {
    int low, high;
  };
  range normal_a_, normal_b_, all_a_, all_b_;  // exponents of the operands
};

}  // namespace stickybit::gpu
