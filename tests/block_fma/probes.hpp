#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "support/generators.hpp"

namespace testing {

/// One inner product of 16 whose result is known.
struct probe {
  char const* what;
  std::array<std::uint16_t, 16> a, b;
  std::uint32_t c, result;
};

/// Single inner products given to mma.sync m16n8k16 bf16 on an H200 (driver 580.159.04, CUDA 13.0), with what it gave.
[[nodiscard]] std::span<probe const> h200_probes();

/// Worked out from the rules that millions of random inner products on the same H200 followed; not run one by one.
[[nodiscard]] std::span<probe const> worked_examples();

}  // namespace testing
