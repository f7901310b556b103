#include "fixed_point_sum.hpp"

#include <bit>

#include "inlined.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {

void fixed_point_sum::add(double product) noexcept {
  if (product == 0) return;
  const auto bits = std::bit_cast<std::uint64_t>(product);
  constexpr int cut = 53 - 16;  // these bits of a product's double are 0
  const auto significand = std::int64_t(((bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52)) >> cut);
  const int exponent = int((bits >> 52) & 0x7ff) - 1075 + cut;
  const int shift = exponent - lowest_exponent;  // 7 … 528
  const auto index = std::size_t(shift / 32);
  const std::int64_t term = significand << (shift % 32);  // below 2^48
  const std::int64_t sign = (bits >> 63) != 0 ? -1 : 1;
  digits_[index] += sign * (term & 0xffffffff);
  digits_[index + 1] += sign * (term >> 32);
}

void fixed_point_sum::normalise() noexcept {
  for (std::size_t i = 0; i + 1 < count; ++i) {
    digits_[i + 1] += digits_[i] >> 32;  // rounds toward minus infinity, so what stays is not negative
    digits_[i] &= 0xffffffff;
  }
}

fixed_point_sum fixed_point_sum::minus(fixed_point_sum const& other) const noexcept {
  fixed_point_sum difference;
  for (std::size_t i = 0; i < count; ++i) difference.digits_[i] = digits_[i] - other.digits_[i];
  difference.normalise();
  return difference;
}

// Five digits from the first that is not 0 hold at least 4·32 + 1 bits, so the rest is below 2^-128 of the value. The
// first two additions are exact (64 bits), so are the bits of the third (96); the last two err by at most 2u² each.
double_double fixed_point_sum::value() const noexcept {
  const bool negative = digits_[count - 1] < 0;
  const fixed_point_sum magnitude = negative ? fixed_point_sum{}.minus(*this) : *this;
  std::size_t top = count;
  while (top > 0 && magnitude.digits_[top - 1] == 0) --top;
  double_double sum{};
  for (std::size_t i = top; i > 0 && i + 5 > top; --i)
    sum = inlined::add(sum, double(magnitude.digits_[i - 1]) * pow2(32 * int(i - 1) + lowest_exponent));
  return negative ? -sum : sum;
}

std::strong_ordering fixed_point_sum::operator<=>(fixed_point_sum const& other) const noexcept {
  for (std::size_t i = count; i-- > 0;)
    if (digits_[i] != other.digits_[i]) return digits_[i] <=> other.digits_[i];
  return std::strong_ordering::equal;
}

}  // namespace stickybit
