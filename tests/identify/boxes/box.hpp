#pragma once
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

// Black boxes in host arithmetic: BF16 operands, FP32 results, K = 8. What STICKYBIT_BOX says: "fma", a chain of FP32 FMAs in descending k; or
// faults that no description can have.

namespace boxes {

inline constexpr unsigned k_count = 8;

inline float value_of(std::uint64_t bf16) { return std::bit_cast<float>(std::uint32_t(bf16) << 16); }

inline std::uint64_t inner_product(std::string_view kind, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t c) {
  static std::mt19937_64 random(std::random_device{}());
  static std::uint64_t calls = 0;
  const bool ascending = kind == "data" && (a[0] & 1) != 0;
  float sum = std::bit_cast<float>(std::uint32_t(c));
  for (unsigned i = 0; i < k_count; ++i) {
    const unsigned k = ascending ? i : k_count - 1 - i;
    sum = std::fma(value_of(a[k]), value_of(b[k]), sum);
  }
  std::uint64_t d = std::isnan(sum) ? 0x7fc00000 : std::bit_cast<std::uint32_t>(sum);
  if (kind == "noise" && d < 0x7f000000) d ^= random() & 1;
  if (kind == "state" && d < 0x7f000000) d ^= ++calls % 3 == 0;
  if (kind == "crash" && calls++ > 100) std::abort();
  if (kind == "hang" && calls++ > 100) ::sleep(1000);
  return d;
}

inline std::string_view chosen() {
  const char* kind = std::getenv("STICKYBIT_BOX");
  return kind == nullptr ? "fma" : kind;
}

}  // namespace boxes
