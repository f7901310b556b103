#pragma once
#include "stickybit/exact/double_double.hpp"

namespace stickybit {

/// ln 2, off by less than 2^-110, and log2 e, by less than 2^-108.
inline constexpr double_double exact_ln_2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr double_double exact_log2_e{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};

}  // namespace stickybit
