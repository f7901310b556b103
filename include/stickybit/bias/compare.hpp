#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/tensor_file/tensor.hpp"

namespace stickybit {

/// What two tensors of one type and shape have in common, code by code.
struct comparison {
  struct difference {
    std::int64_t index;  ///< in row-major order
    std::uint32_t left, right;
  };

  std::int64_t total = 0;
  std::int64_t mismatches = 0;
  std::optional<difference> first;
  /// Differing numbers by signed distance in codes, left − right (1: left is the next larger number); zeros of both signs are 0 apart
  /// and still a mismatch. Distances of 1 to 8 by themselves, larger ones by the power of two at or below.
  std::map<std::int64_t, std::int64_t> ulp_histogram;
  std::int64_t left_larger = 0, right_larger = 0;
  std::int64_t nan_against_number = 0;
};

/// Compares codes. A NaN equals any NaN, unless `nan_bits`: then payload and sign count.
/// @throws std::invalid_argument where type or shape differ
[[nodiscard]] comparison compare(tensor const& left, tensor const& right, bool nan_bits = false);

/// "[3, 0, 17]": where the row-major index lies in the shape.
[[nodiscard]] std::string position_text(std::vector<std::int64_t> const& shape, std::int64_t index);

/// "0x3F80 (1)": a code of the type with its value where we can print it.
[[nodiscard]] std::string code_text(dtype type, std::uint32_t bits);

}  // namespace stickybit
