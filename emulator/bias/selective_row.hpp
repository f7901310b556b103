#pragma once
#include <span>
#include <vector>

#include "selective_arithmetic.hpp"
#include "selective_join.hpp"
#include "selective_softmax.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/exact/dot_products.hpp"
#include "stickybit/exact/weighted_sum.hpp"
#include "wide_products.hpp"

namespace stickybit::detail {

/// @throws unsupported_call where there is no attribution; std::invalid_argument for a scale that is not above 0
[[nodiscard]] call_plan plan_selective(attention_schedule const& schedule, attention_problem const& problem);

/// K and V of one key head, in every form that a row needs.
struct selective_head {
  column_panel keys;          // Kᵀ[d × s_k]
  column_panel values;        // V[s_k × d]
  dot_products exact_scores;  // with K
  wide_panel wide_values;     // V

  selective_head(attention_problem const& p, std::int64_t batch, std::int64_t key_head);
};

/// The law of row_worker for one row, on double_double, with chosen rounding points. One thread's, with its scratch memory.
class selective_row {
 public:
  selective_row(call_plan const& plan, attention_problem const& problem);

  /// Sets the row: its scores, exact and as the kernel has them. `data` must outlive the evaluations.
  void load(selective_head const& data, std::int64_t batch, std::int64_t head, std::int64_t row);

  /// O [d] of the loaded row; valid until the next call. NaN where a weight or the sum is NaN or infinite.
  [[nodiscard]] std::span<double_double const> evaluate(rounding_points active);

  /// May the element be compared with its exact value? Not where a visible key's V is NaN or infinite.
  [[nodiscard]] bool is_ordinary(std::int64_t column) const noexcept { return data_->wide_values.values.first_special[std::size_t(column)] >= visible_; }
  [[nodiscard]] std::int64_t visible() const noexcept { return visible_; }

 private:
  void run_part(std::int64_t part);
  void take_block(std::int64_t block, bool in_masked);
  void add_products(std::int64_t first_column, std::span<double_double const> weights, bool codes);
  void add_products_exactly(std::int64_t first_column, std::span<double_double const> weights);
  void divide_by_sum();
  void join_all();

  call_plan const& plan_;
  attention_problem const& problem_;
  forward_rules const& rules_;
  selective_arithmetic arithmetic_;
  selective_softmax softmax_;
  rows_times_panel product_;
  weighted_sum exact_products_;

  selective_head const* data_ = nullptr;
  std::int64_t head_ = 0, row_ = 0, visible_ = 0;
  bool failed_ = false;  ///< something that no later step can make a number again
  std::vector<double_double> kernel_scores_, exact_scores_;  // S[s_k]; masked ones −infinity
  std::vector<double_double> weights_;                       // P[block]
  std::vector<double_double> output_;                        // O[d]
  std::vector<split_part> parts_;
  std::vector<double_double> block_sums_;                    // [d]
  std::vector<bf16_code> weight_codes_;
  std::vector<f32_code> output_codes_;
  std::vector<double> wide_weights_, wide_output_;
};

}  // namespace stickybit::detail
