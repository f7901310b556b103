#include <array>

#include "stickybit/fix/fix.hpp"

namespace stickybit {

std::span<fix_description const> all_fixes() noexcept {
  constexpr std::string_view qiu = "Qiu, Yao: Why Low-Precision Transformer Training Fails (arXiv 2510.04212)";
  constexpr std::string_view gproj = "GProj: projection of the score gradient after its rounding to BF16 (preprint; formulas derived here)";
  static constexpr std::array fixes{
      fix_description{"none", "", "nothing", "", ""},
      fix_description{"beta", "beta=2,tol=1e-3 | preset=v2|v4|repo", "the row maximum, where more than one visible key has it, by one farther away, so that no weight is exactly 1", qiu,
                      "Presets follow the paper (v2: beta 7, exact ties; v4 and repo: beta 2, ties within 1e-3): a maximum of 0 stays, ties in two blocks are missed, "
                      "a maximum up to 0.00196 still gives weights that round to 1, one above 87.3/(beta - 1) underflows, and a tied maximum below -87.3 wipes the row. Without a preset the "
                      "shift is kept between ln(4/3) and 64 and ties are counted over all blocks so far. Masked keys are never ties.", in_kernels::both},
      fix_description{"subtract-first", "", "the exponent's argument: rn(rn(S - m) L) instead of one fused operation with a rounded m L", "GProj preprint, forward fix; FlashAttention issue on UNFUSE_FMA",
                      "Repairs the forward pass only. Kernels whose maximum is scaled already subtract first.", in_kernels::both},
      fix_description{"two-row-sums", "", "the divisor of O by the FP32 sum of the BF16 weights; lse keeps the sum of the FP32 weights", "FlashAttention pull request 2721", "Costs one more addition a score.", in_kernels::both},
      fix_description{"k-smooth", "", "K by BF16(K - mean over the keys that some row sees), forward and backward", "SageAttention; GProj preprint, for comparison",
                      "lse moves by scale q mean. Removes the row mass along the mean key only; do not add the rounded rowsum(dS) mean back afterwards."},
      fix_description{"gproj", "weights=p|uniform,targets=all|dq", "dQ by dQ - e (w K), dK by dK - w'(e o Q): e is the row sum that dS has after its cast, w the BF16 weights over their sum, or 1/visible", gproj,
                      "w must sum to 1: unnormalised BF16 weights leave 0.4% on rows with a large mean key. dQ takes one more product a block; dK (targets=all) another pass over the scores."},
      fix_description{"delta-fp32", "", "the O in delta by the FP32 O before its cast", qiu, "O must be stored twice. Rows with one dominant key keep the difference between delta's and dP's arithmetic."},
      fix_description{"delta-hilo", "", "the O in delta by BF16 O + BF16(O - BF16 O)", "as delta-fp32, in 2 bytes more an element instead of 4", "As delta-fp32.", in_kernels::both},
      fix_description{"delta-mma", "", "delta by the tensor-core chain that gives dP, over dO and the BF16 O", "found here: delta and dP of a dominant key are the same product, summed by different arithmetic",
                      "Makes rows with one dominant key exact; keeps the error of the rounded O elsewhere."},
      fix_description{"delta-pdp", "", "delta by rowsum(P o dP) / rowsum(P) in FP32", "reported: flash-spacetime", "Every score is computed once more before dS: one more pass."},
      fix_description{"fp32", "delta=o|pdp", "every operand and product by FP32 fused multiply-adds in ascending order, delta likewise from the FP32 O, or as rowsum(P o dP) / rowsum(P); O and the gradients are cast to BF16 at the end", "",
                      "Forward and backward. Not the floor: a weight within 2^-25 of 1 rounds to 1, and dS of a row with such a key loses its largest term. fp32+gproj is."},
      fix_description{"fp32-backward", "", "every operand and product of the backward pass by FP32, on the kernel's own O and lse", "GProj preprint, diagnostic", "delta still comes from the BF16 O."},
  };
  return fixes;
}

}  // namespace stickybit
