#pragma once
#include <cstdint>
#include <string>
#include <vector>

// What one rounding point has to do with the error of a tensor, whatever the tensor.
//
// Units: ulp as in tensor_error: each error in the ulp of its column (O, delta, dQ, dK, dV) or of its row (dP, dS).
//
// The part along a direction D, for each of the H heads a matrix of its own: with e the errors and D both in those ulps, over the N
// counted elements, Σ over heads of Σ e·D / (|D|·√(H·N)). That is the mean over heads of the length of the projection of e on D, as a
// root mean square. So it is never above the rms in magnitude, (along / rms)² is the share of the sum of squares that lies along all
// heads' directions at once, and it is linear in e: the parts of a split add up.
// The directions are exact, computed from the inputs, the same for every rounding point:
//   tensor  D_i                        what an error does that is
//   O       dO_i                       of O, as far as delta sees it: Σ ⟨error of O_i, dO_i⟩ is the error of Σ delta_i
//   delta   1                          the coefficient itself: along is the mean
//   dP      1, over visible keys       common to a row of dP, and so indistinguishable from one of −delta
//   dS      P_i                        dS_ij = P_ij·(dP_ij − delta_i), so −1 in delta_i is +P_i
//   dQ      (PK)_i                     the same −1, through dQ = dS·K
//   dK      (PᵀQ)_j                    the same −1 in all rows, through dK = dSᵀ·Q
//   dV      (PᵀdO)_j = dV_j            one relative error of all weights, as of a lse that is off by a constant
// @source H. Qiu, Q. Yao, "Why Low-Precision Transformer Training Fails", arXiv 2510.04212, equations (1) to (3): the error of
//         dWq = dQᵀX is Σ_i (delta_hp − delta_lp)_i·(PK)_iᵀX_i up to the scale, and (PK)_iᵀX_i is nearly one rank-one matrix in all
//         rows and steps, so the errors of delta are its coefficients. dS, dK, O: the same error of delta in the other tensors. dV
//         does not depend on delta: its direction is ours.

namespace stickybit {

/// One rounding point's part in the error of one tensor.
struct attributed_point {
  std::string name;
  /// The split: error with this point and all before it, less the error with all before it. Adds up to the total, in every element.
  double mean_signed_error_ulp = 0;
  double standard_error_ulp = 0;  ///< of it, over rows
  double rms_error_ulp = 0;
  double alone_mean_signed_error_ulp = 0;    ///< only this point rounds
  double without_mean_signed_error_ulp = 0;  ///< all but this point round
  double along_direction = 0;                ///< of the split; in ulp, see above. Adds up too
  double alone_along_direction = 0;
  double without_along_direction = 0;
};

struct tensor_attribution {
  std::vector<attributed_point> points;  ///< in the order of computation; one that cannot touch the tensor is left out
  double mean_signed_error_ulp = 0;      ///< all points, over the elements counted here
  double rms_error_ulp = 0;
  double along_direction = 0;
  std::int64_t counted = 0;   ///< elements finite with every set of points tried
  std::int64_t left_out = 0;  ///< the others, and rows without keys
};

}  // namespace stickybit
