#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/attention/backward.hpp"

// The row mass e_i = Σ_j dS_ij of what a kernel feeds to the products of dQ and dK. In exact arithmetic it is 0, because a softmax does not
// notice a common shift; what is left adds about s·e_i·(PK)_i to row i of dQ.

namespace stickybit {

/// One row. Sums are in double, of the kernel's own FP32 and BF16 values; without the softmax scale.
struct row_mass_parts {
  double mass = 0;  ///< Σ_j dS_ij after its cast; 0 for a row without keys
  /// What it comes from, where delta is formed from O; the three add up to it.
  double rounded_output = 0;        ///< the stored O is not Σ P V: rounding of O to BF16 and all before it
  double different_arithmetic = 0;  ///< dP by the tensor core, delta by FP32 additions: neither is the exact product, and they differ
  double score_cast = 0;            ///< dS from FP32 to BF16, and its FP32 operations
  double weighted_keys = 0;         ///< |Σ_j P_ij K_j|₂, P in FP32
  double watched_difference = 0;    ///< dP − delta at the key that was watched; NaN where none was
};

/// Collects row masses while a backward pass goes by: pass observer() as backward_options::scores.
class row_mass_collector {
 public:
  /// The problem must outlive it.
  /// @param watched  one key for each row [b, h, s] (any number for a row that sees none), or nothing
  explicit row_mass_collector(attention_problem const& problem, std::vector<std::int64_t> watched = {});

  /// To be called with every row of every block, from any thread.
  void see(score_block_row const& row);

  /// After the pass. [b, h, s].  @param scale_in_scores  the schedule put the scale into dS: it is taken out again
  [[nodiscard]] std::vector<row_mass_parts> finish(forward_result const& forward, backward_result const& backward, bool scale_in_scores) const;

 private:
  struct row_sums {
    double weights = 0;   // Σ P
    double kernel = 0;    // Σ P dP, the kernel's dP
    double exact_dp = 0;  // Σ P (dO·V)
    double cast = 0;      // Σ BF16 dS
    double watched_dp;    // NaN until seen
  };

  attention_problem const& problem_;
  std::vector<std::int64_t> watched_;
  std::vector<double> k_, v_, d_o_;  ///< as in the problem
  std::vector<row_sums> sums_;       ///< [b, h, s]
  std::vector<double> keys_;         ///< P K [b, h, s, d]
};

}  // namespace stickybit
