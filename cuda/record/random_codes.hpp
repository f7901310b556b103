#pragma once
#include <cstdint>

#include "stickybit/format/code.hpp"

namespace stickybit::gpu {

/// SplitMix64.  @source Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
class random_codes {
 public:
  /// Independent streams: each case of each generator has its own, so cases can be made in any order.
  constexpr random_codes(std::uint64_t seed, std::uint64_t generator, std::uint64_t index) noexcept : state_(seed) {
    state_ = bits() + generator;
    state_ = bits() + index;
  }

  constexpr std::uint64_t bits() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Uniform in low..high, both included.
  constexpr int between(int low, int high) noexcept { return low + int((bits() >> 32) * std::uint64_t(high - low + 1) >> 32); }
  constexpr bool one_in(int n) noexcept { return between(1, n) == 1; }

  /// ± 1.f · 2^e, −126 ≤ e ≤ 127, sign and fraction random.
  constexpr bf16_code bf16(int e) noexcept { return bf16_code::from_bits(std::uint16_t((bits() & 0x807f) | std::uint64_t(e + 127) << 7)); }
  constexpr bf16_code bf16(int e_low, int e_high) noexcept { return bf16(between(e_low, e_high)); }
  constexpr f32_code f32(int e) noexcept { return f32_code::from_bits(std::uint32_t((bits() & 0x807fffff) | std::uint64_t(e + 127) << 23)); }
  constexpr f32_code f32(int e_low, int e_high) noexcept { return f32(between(e_low, e_high)); }
  constexpr bf16_code bf16_subnormal() noexcept { return bf16_code::from_bits(std::uint16_t((bits() & 0x8000) | unsigned(between(1, 0x7f)))); }
  constexpr f32_code f32_subnormal() noexcept { return f32_code::from_bits(std::uint32_t(bits() & 0x807fffff)); }

 private:
  std::uint64_t state_;
};

/// ± 2^e, −126 ≤ e ≤ 127.
constexpr bf16_code bf16_power(bool negative, int e) noexcept { return bf16_code::from_bits(std::uint16_t(unsigned(negative) << 15 | unsigned(e + 127) << 7)); }

}  // namespace stickybit::gpu
