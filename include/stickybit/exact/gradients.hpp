#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/exact/dot_products.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/exact/rows.hpp"
#include "stickybit/exact/softmax.hpp"

namespace stickybit {

/// What one query row has besides its P, dP, dS and dQ.
struct gradient_row {
  std::size_t visible = 0;         ///< keys this row sees: the first so many
  double_double lse;               ///< as exact_softmax gives it
  double_double delta;             ///< Σ_j P_ij·dP_ij; 0 without a visible key
  bool softmax_determined = true;  ///< false: P is NaN, and all that follows from it
  bool determined = true;          ///< false: delta, dS and dQ are NaN; P may yet be determined
  std::size_t reference = 0;       ///< r, the first key of the largest weight
  double_double sum;               ///< as exact_softmax gives it
  double_double mean;              ///< Σ_j P_ij·(dP_ij − dP_ir)
};

/// Exact gradients of one head.
struct head_gradients {
  std::vector<double_double> delta;        ///< {s}
  std::vector<double_double> dq;           ///< dQ[s×d]
  std::vector<double_double> dk;           ///< dK[s_k×d]
  std::vector<double_double> dv;           ///< dV[s_k×d_v]
  std::vector<std::uint8_t> without_keys;  ///< 1: the row sees no key; then its delta and its row of dQ are 0. {s}
  std::vector<gradient_row> rows;          ///< as evaluate_row() gives them. {s}
};

/// The mathematical value of the backward pass of attention on BF16 inputs, one head. Over the keys that row i sees
///   P_ij = exp(scale·(S_ij − max))/Σ,  dP = dO·Vᵀ,  delta_i = Σ_j P_ij·dP_ij,  dS_ij = P_ij·(dP_ij − delta_i), without the scale;
///   dQ = scale·dS·K,  dK = scale·dSᵀ·Q,  dV = Pᵀ·dO.
///
/// Errors, with n = max(s, s_k):
///   P_ij     ≤ (2^-92 + n·2^-108)·P_ij;  dP_ij ≤ 2^-103·|dP_ij|
///   delta_i  ≤ (2^-92 + n·2^-108)·Σ_j P_ij·|dP_ij|;  dV_jc ≤ (2^-92 + n·2^-108)·Σ_i P_ij·|dO_ic|
///   dS_ij    ≤ ε·g_i·A_ij, where A_ij = P_ij·Σ_t P_it·|dP_ij − dP_it|, which is |dS_ij| where nothing cancels;
///              ε = 2^-91 + n·2^-107, g_i = 1 + 2/max_t P_it, between 3 (one-hot rows) and 1 + 2n (flat rows)
///   dQ_ic    ≤ ε·scale·g_i·Σ_j A_ij·|K_jc|;  dK_jc ≤ ε·scale·Σ_i g_i·A_ij·|Q_ic|
/// ε·g_i is ≤ 2^-74 for n ≤ 2^15 and ≤ 2^-65 for n ≤ 2^20, whatever the scores and whatever cancels in dO·Vᵀ or in dP − delta: the
/// dS of the winner of a nearly one-hot row, P_w·Σ_t P_it·(dP_iw − dP_it), has its own terms' precision, however small they are.
/// Added to each is an absolute error for what falls below the range of double: n²·2^-1068·max(1, |dP_ij − dP_it|) for dS, that times
/// max(1, |K|, |Q|)·max(1, scale) for dQ and dK, and n·2^-1070·max(1, |dP|, |dO|) for P, delta and dV. A result beyond double is infinite.
///
/// A row with one key has dS = 0; a row without a key has delta = 0, dQ = 0 and adds nothing to dK and dV.
/// NaN and infinity at keys that the row does not see have no effect on it, nor has the row on those keys. At visible keys:
///   - a score NaN, or a largest score that is infinite (so whenever Q_i has NaN or infinity): P, delta, dS and the row of dQ are NaN, and so
///     are dK and dV of every key that the row sees;
///   - a score −infinity: P_ij = 0 and dS_ij = 0; 0 times a finite number is 0, but times NaN or infinity NaN. So dQ_ic is NaN where the row
///     sees an infinite K_jc;
///   - a dP_ij not finite, that is NaN or infinity in dO_i or in a V_j: delta, dS and the row of dQ are NaN, and so is dK of every key that
///     the row sees, also where IEEE arithmetic would find an infinity; P stands;
///   - dO_ic NaN: dV_jc is NaN for every key j that the row sees. dO_ic infinite: dV_jc is that infinity, for P_ij > 0 even where P_ij is below
///     the range of double; NaN if infinities of both signs meet.
/// Holds copies of all four as doubles, of k two: memory O(s·(d + d_v) + s_k·(d + d_v)), and 2 kB a key in evaluate(); S is never stored.
/// @checked against 640-bit arithmetic, tests/exact/gradients.cpp
class exact_gradients {
 public:
  /// @param q, k  {s, d}, {s_k, d}: q must outlive this.  @param v, d_o  {s_k, d_v}, {s, d_v}: must outlive this
  /// @param softmax_scale  taken as exact
  /// @throws std::invalid_argument unless q and d_o have equal rows, k and v have equal rows, v and d_o have equal columns, or as
  ///         exact_softmax and dot_products do
  exact_gradients(bf16_rows q, bf16_rows k, bf16_rows v, bf16_rows d_o, double softmax_scale, mask_alignment mask);

  [[nodiscard]] std::size_t rows() const noexcept { return softmax_.rows(); }
  [[nodiscard]] std::size_t keys() const noexcept { return softmax_.keys(); }

  /// Row i. p, dp, ds get P_ij, dP_ij and dS_ij of the visible keys, what lies behind stays as it is; dq gets dQ_i. May be called from
  /// many threads, and has the bits of evaluate().
  /// @throws std::out_of_range unless i < rows(); std::invalid_argument unless p, dp and ds have room for the visible keys and dq.size() is d
  gradient_row evaluate_row(std::size_t i, std::span<double_double> p, std::span<double_double> dp, std::span<double_double> ds,
                            std::span<double_double> dq) const;

  /// P, dP and dS of the keys from `first` on of row i: S and dP are computed again, the sums over the row are taken from `row`, which
  /// evaluate_row(i) or evaluate() gave. For whom the matrices are too large to keep. May be called from many threads.
  /// @throws std::out_of_range unless i < rows(); std::invalid_argument unless p, dp and ds have equal sizes and first + p.size() ≤ row.visible
  void evaluate_keys(std::size_t i, gradient_row const& row, std::size_t first, std::span<double_double> p, std::span<double_double> dp,
                     std::span<double_double> ds) const;

  /// The whole head, in parallel (OpenMP); the same bits for any number of threads.
  [[nodiscard]] head_gradients evaluate() const;

 private:
  /// Of the finite non-zero elements of a group: 2^lowest divides each, and each is below 2^above in magnitude.
  struct exponent_range {
    int lowest = 0;
    int above = 0;
    bool empty = true;
    void include(double x) noexcept;
  };
  struct band;

  [[nodiscard]] bool products_are_exact(std::size_t i) const noexcept;
  bool differences(std::size_t i, std::size_t reference, std::span<double_double> dp, std::span<double_double> below) const;
  void apply_specials(std::span<gradient_row const> rows, head_gradients& g) const;

  exact_softmax softmax_;
  dot_products v_products_;
  bf16_rows v_, d_o_;
  double scale_;
  std::size_t d_;
  std::vector<double> q_values_, k_values_, d_o_values_;  ///< Q[s×d], K[s_k×d], dO[s×d_v], NaN and infinity replaced by 0
  exponent_range v_range_;
  std::vector<std::size_t> first_infinite_key_;  ///< of each column of K; s_k: none. {d}
  std::vector<std::uint8_t> key_not_finite_;     ///< K_j has NaN or infinity. {s_k}
};

}  // namespace stickybit
