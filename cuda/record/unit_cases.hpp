#pragma once
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "aimed_generators.hpp"

// Random inner products that are hard for a given unit. Host code, no CUDA: the GPU programs and the tests make the same cases.

namespace stickybit::gpu {

struct unit_generator {
  std::string_view name;
  int instructions;  ///< of a case: more where the shape has room for them
  void (*make)(case_maker&);
};

/// The place in this list is part of a case's seed: append only.
inline constexpr std::array unit_generators{
    unit_generator{"narrow", 1, generators::narrow},
    unit_generator{"wide", 1, generators::wide},
    unit_generator{"cancelling", 1, generators::cancelling},
    unit_generator{"subnormal", 1, generators::subnormal},
    unit_generator{"signed_zero", 1, generators::signed_zero},
    unit_generator{"special", 1, generators::special},
    unit_generator{"all_bits", 1, generators::all_bits},
    unit_generator{"clamp", 1, generators::clamp},
    unit_generator{"c_offset", 1, generators::c_offset},
    unit_generator{"overflow", 1, generators::overflow},
    unit_generator{"carry", 1, generators::carry},
    unit_generator{"c_sweep", 1, generators::c_sweep},
    unit_generator{"cancel_depth", 1, generators::cancel_depth},
    unit_generator{"chained_2", 2, generators::chained},
    unit_generator{"chained_3", 3, generators::chained},
    unit_generator{"chained_4", 4, generators::chained},
    unit_generator{"output_tie", 1, generators::output_tie},
    unit_generator{"low_bits", 1, generators::low_bits},
    unit_generator{"unnormalised", 1, generators::unnormalised},
    unit_generator{"quantum_edge", 1, generators::quantum_edge},
    unit_generator{"quantum_edge_2", 2, generators::quantum_edge},
    unit_generator{"subnormal_output", 1, generators::subnormal_output},
    unit_generator{"nan_kinds", 1, generators::nan_kinds},
    unit_generator{"lone", 1, generators::lone},
    unit_generator{"clamp_edge", 1, generators::clamp_edge},
    unit_generator{"subnormal_level", 1, generators::subnormal_level},
};

/// Instructions of each case of a generator.
[[nodiscard]] constexpr int instructions_of(std::size_t generator, case_shape const& shape) noexcept {
  return std::min(unit_generators[generator].instructions, max_case_products / shape.k);
}

/// Case number `index` of unit_generators[generator]: the same operands for the same numbers, on any machine. In a quarter of the cases
/// the padding bits of operands that have them are random.
[[nodiscard]] constexpr unit_case make_unit_case(case_shape const& shape, std::size_t generator, std::uint64_t seed, std::uint64_t index) {
  random_codes random(seed, generator, index);
  case_maker m(shape, random, index, instructions_of(generator, shape));
  unit_generators[generator].make(m);
  if ((shape.a.padding_bits > 0 || shape.b.padding_bits > 0) && random.one_in(4))
    for (std::size_t k = 0; k < std::size_t(m.x.size); ++k) {
      m.x.a[k] |= random.bits() & shape.a.padding_mask();
      m.x.b[k] |= random.bits() & shape.b.padding_mask();
    }
  return m.x;
}

/// @throws std::invalid_argument naming the generators that there are
[[nodiscard]] inline std::size_t unit_generator_named(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < unit_generators.size(); ++i) {
    if (unit_generators[i].name == name) return i;
    (known += " ") += unit_generators[i].name;
  }
  throw std::invalid_argument("unknown generator '" + std::string(name) + "': expected one of" + known);
}

}  // namespace stickybit::gpu
