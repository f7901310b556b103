#pragma once
#include <array>
#include <cstdint>

#include "stickybit/machine/machine.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace testing {

using special_function = stickybit::f32_code (*)(stickybit::special_function_tables const&, stickybit::f32_code) noexcept;

inline stickybit::special_function_tables const& hopper_tables() { return *stickybit::sm90().special_functions; }

inline std::uint32_t value_of(special_function f, std::uint32_t x) { return f(hopper_tables(), stickybit::f32_code::from_bits(x)).to_bits(); }

}  // namespace testing
