#pragma once
#include <cstddef>
#include <span>

#include "stickybit/exact/dot_products.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/exact/rows.hpp"

namespace stickybit {

/// What one row of scores sums to.
struct softmax_row {
  std::size_t visible = 0;  ///< keys this row sees: the first so many
  double_double sum;        ///< Σ_j exp(scale·(S_j − max S)) over them, ≥ 1; 0 without a visible key
  double_double lse;        ///< scale·max S + ln(sum), natural logarithm; −infinity without a visible key
  bool determined = true;   ///< false: a score is NaN, or the largest is infinite; then sum and weights are NaN
};

/// The mathematical softmax of scale·q·kᵀ, row by row.
///
/// NaN and infinity count only at visible keys. A score −infinity weighs 0. A NaN score makes the row NaN; if the largest
/// score is +infinity or −infinity, no weight is determined, yet lse is that infinity.
class exact_softmax {
 public:
  /// @param q  shape {s, d}; not copied, must outlive this.  @param k  shape {s_k, d}; copied
  /// @param softmax_scale  taken as exact
  /// @throws std::invalid_argument unless q and k have equal columns and 0 < softmax_scale < infinity, or as dot_products does
  exact_softmax(bf16_rows q, bf16_rows k, double softmax_scale, mask_alignment mask);

  [[nodiscard]] std::size_t rows() const noexcept { return q_.rows; }
  [[nodiscard]] std::size_t keys() const noexcept { return scores_.rows(); }
  /// Keys that row i sees.
  [[nodiscard]] std::size_t visible(std::size_t i) const noexcept { return visible_keys(mask_, i, rows(), keys()); }

  /// weights[j] = exp(scale·(S_ij − max S_i)), for the visible keys; the others stay as they are. P_ij is weights[j]/sum.
  /// Relative error of a weight ≤ 2^-93.6 (plus 2^-1073 absolute), of sum ≤ 2^-93.5 + n·2^-109 for n visible keys;
  /// error of lse ≤ 2^-102·|scale·max S| + that of sum + 2^-99·ln(n).
  /// @throws std::out_of_range unless i < rows(); std::invalid_argument unless weights.size() ≥ visible(i)
  softmax_row evaluate(std::size_t i, std::span<double_double> weights) const;

  /// The weights of some keys alone: weights[j] = exp(scale·(S_i,first+j − S_i,reference)), error as in evaluate().
  /// @pre the largest score of the row is finite and `reference` is its key
  /// @throws std::out_of_range unless i < rows(); std::invalid_argument unless reference < keys() and first + weights.size() ≤ keys()
  void evaluate_keys(std::size_t i, std::size_t reference, std::size_t first, std::span<double_double> weights) const;

 private:
  bf16_rows q_;
  dot_products scores_;
  double scale_;
  mask_alignment mask_;
};

}  // namespace stickybit
