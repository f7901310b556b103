#pragma once
#include "stickybit/figure/scene.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit::figure {

/// One rounding on the number line: the representable neighbours with their decimal values and codes, even or odd; the exact value
/// between them; the midpoint; which neighbour was taken, and the error in units of the gap (1 ulp below the top of a binade).
/// A value that fits is on a tick. One beyond the largest number, or flushed to zero, has its own last gap, said in the caption.
[[nodiscard]] scene number_line(rounded const& event);

}  // namespace stickybit::figure
