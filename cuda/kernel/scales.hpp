#pragma once

// Numbers that the host forms from the scale of a call, the same for every kernel.

namespace stickybit::kernel {

/// L = s·log2(e): the FP32 scale times M_LOG2E in FP64, rounded once.
inline float scale_log2_of(float scale) { return static_cast<float>(double{scale} * 0x1.71547652b82fep+0); }

/// How far `beta` moves a maximum at least, ln(4/3), and at most, in natural units.  @source tie_parameters of the emulator
inline constexpr float least_tie_shift = 0.28768207f, most_tie_shift = 64;

}  // namespace stickybit::kernel
