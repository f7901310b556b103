#pragma once
#include <array>

#include "oracle/round.hpp"
#include "stickybit/rounding/round_pack.hpp"

// The library's names for a rounding next to the oracle's.
namespace testing {

struct mode_pair {
  stickybit::rounding library;
  oracle::direction oracle;
};
/// The deterministic ones.
inline constexpr std::array all_modes{
    mode_pair{stickybit::rounding::nearest_even, oracle::direction::nearest_even},
    mode_pair{stickybit::rounding::toward_zero, oracle::direction::zero},
    mode_pair{stickybit::rounding::toward_positive, oracle::direction::up},
    mode_pair{stickybit::rounding::toward_negative, oracle::direction::down},
    mode_pair{stickybit::rounding::nearest_away, oracle::direction::nearest_away},
    mode_pair{stickybit::rounding::to_odd, oracle::direction::odd},
};

}  // namespace testing
