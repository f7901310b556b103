#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stickybit/exact/double_double.hpp"
#include "stickybit/exact/rows.hpp"
#include "stickybit/exact/softmax.hpp"

namespace stickybit {

/// Exact outputs of the query rows first … first + rows − 1 of one head.
struct exact_rows {
  std::size_t first = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;                 ///< d_v
  std::vector<double_double> o;            ///< O[rows×d_v]
  std::vector<double_double> lse;          ///< natural logarithm, {rows}
  std::vector<std::uint8_t> without_keys;  ///< 1: the row sees no key; then O = 0 and lse = −infinity. {rows}
  std::size_t count_without_keys = 0;
};

/// The mathematical value of attention on BF16 inputs, one head: O_ij = Σ_t P_it·V_tj, P_it = exp(scale·(S_it − max))/Σ
/// over the visible keys t.
///
/// Error of O_ij with n visible keys: ≤ (2^-92 + n·2^-108)·Σ_t P_it·|V_tj|, which is ≤ 2^-75 of the largest term |P_it·V_tj| for
/// n ≤ 2^15 and ≤ 2^-60 for n ≤ 2^24, whatever the scores and whatever cancels; plus an absolute n·2^-1070·max(1, |V|) for what falls
/// below the range of double (only where every P_it·V_tj that is not 0 is far below 2^-940). lse: see exact_softmax.
///
/// NaN and infinity at keys that the row does not see have no effect. At a visible key t:
///   - a score NaN, or a largest score that is infinite: O is NaN (lse: see exact_softmax);
///   - a score −infinity: P_it = 0, and 0 times a finite V is 0, but times NaN or infinity NaN;
///   - V_tj NaN: O_ij is NaN. V_tj infinite: O_ij is that infinity, for P_it > 0 even where P_it is below the range of double;
///     NaN if infinities of both signs meet.
/// Holds copies of k and v as doubles: memory O(s_k·(d + d_v)); S is never stored.
class exact_attention {
 public:
  /// @param q, k  {s, d}, {s_k, d}: must outlive this.  @param v  {s_k, d_v}, copied
  /// @param softmax_scale  taken as exact
  /// @throws std::invalid_argument unless k and v have equal rows, or as exact_softmax does
  exact_attention(bf16_rows q, bf16_rows k, bf16_rows v, double softmax_scale, mask_alignment mask);

  /// Rows first … first + count − 1, in parallel (OpenMP); the same bits for any number of threads and any division into ranges.
  /// @throws std::out_of_range unless first + count ≤ s
  [[nodiscard]] exact_rows evaluate(std::size_t first, std::size_t count) const;
  [[nodiscard]] exact_rows evaluate() const { return evaluate(0, softmax_.rows()); }

 private:
  struct special {
    std::size_t key, column;
    double value;
  };

  /// What NaN and infinities in V make of row i; o {d_v}.
  void apply_specials(std::size_t i, std::size_t visible, double_double* o) const;

  exact_softmax softmax_;
  bf16_rows q_, k_;
  std::size_t columns_;
  std::vector<double> v_;          ///< V[s_k×d_v], NaN and infinity replaced by 0
  std::vector<special> specials_;  ///< those, by key
};

}  // namespace stickybit
