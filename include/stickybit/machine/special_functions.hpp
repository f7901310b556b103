#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "stickybit/machine/evidence.hpp"

namespace stickybit {

/// One segment of a quadratic interpolation, P(x) = a·2^i + b·x + c·SQ(x)·2^j (sfu/ says which i and j).
struct interpolation_row {
  std::int32_t a, b, c;
};

/// The coefficient tables of a special-function unit: what MUFU evaluates. 384 rows of 26 + 16 + 10 bits.
struct special_function_tables {
  std::array<interpolation_row, 64> ex2;
  std::array<interpolation_row, 128> rcp;
  std::array<interpolation_row, 128> rsqrt;
  std::array<interpolation_row, 64> lg2;
};

}  // namespace stickybit
