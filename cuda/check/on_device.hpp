#pragma once
#include "../record/hardware_ways.hpp"
#include "stickybit/machine/unit.hpp"

// The cases of unit_cases.hpp and the definition of block_fma.hpp, compiled for the device. Both are on trial there: whoever uses them
// compares some of what they give with the host's. All return before the GPU is done.

namespace stickybit::gpu {

/// Cases first .. first + x.count − 1 of a generator: what make_unit_case() makes, as packed_cases::put() packs it.
void make_cases_on_device(case_shape const& shape, std::size_t generator, std::uint64_t seed, std::uint64_t first, device_cases const& x);

/// How the definition is asked on the device.
struct device_definition {
  machine_unit unit;
  bool descending = false;  ///< FP64 only: the products in descending k, a control
};

/// results[i] = what evaluate() says of case i < x.count.
/// @throws std::invalid_argument for a unit with rules that no unit of NVIDIA's without scales has
void define_on_device(device_definition const& definition, device_cases const& x, std::uint64_t* results);

/// Mismatches and the least index of one.
struct device_tally {
  unsigned long long mismatches = 0, first = ~0ULL;
};

/// Adds to *tally, which is in device memory: x.d against `defined`, for i < x.count, of which number 0 has the index `first`.
void compare_on_device(bool half_output, device_cases const& x, std::uint64_t const* defined, std::uint64_t first, device_tally* tally);

/// Changes the sign of every element of `bytes` bytes of operands.
void negate_on_device(std::byte* operands, std::size_t bytes, int element_bytes);

}  // namespace stickybit::gpu
