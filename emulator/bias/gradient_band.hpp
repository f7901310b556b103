#pragma once
#include <memory>
#include <vector>

#include "gradient_call.hpp"
#include "kernel_scores.hpp"
#include "score_variants.hpp"

// Some neighbouring query rows of one head, block of keys after block of keys: their P and dS with every set of points, and the products
// that these enter. Memory: a band times a block for each operand, s_k·d for each product of dK and dV.

namespace stickybit::detail {

/// P or dS of a band in a block, as it is wanted.
struct operand_block {
  std::vector<double> difference, value;   // [rows × columns]
  std::vector<bf16_code> codes, by_key;    // [rows × columns], [columns × rows]
};

/// Sums of one product of dK or dV over the rows taken so far, [s_k × d]: differences and wide sums as doubles, the unit's as codes.
struct key_sums {
  std::vector<double> wide;
  std::vector<f32_code> codes;
};

/// The products of one query head.
struct head_products {
  std::vector<key_sums> dk, dv;
  std::vector<double> weighted_queries;  // PᵀQ[s_k × d]
  head_products(score_plan const& sets, std::size_t key_elements);
};

/// What one thread works with.
struct band_worker {
  std::unique_ptr<kernel_scores> kernel;
  score_variants variants;
  rows_times_panel product;
  std::vector<double_double> exact_s, exact_p, exact_dp, exact_ds;
  std::vector<double> errors, part;
  std::vector<f32_code> codes;

  band_worker(gradient_call const& call, score_plan const& sets);
};

class gradient_band {
 public:
  /// One head's; everything given must outlive it.
  gradient_band(gradient_call const& call, score_plan const& sets, key_head_operands const& keys, query_head_operands const& queries, std::int64_t b,
                std::int64_t head, head_products& products);

  /// Rows of a band: a tile of the kernel, or so many that its blocks of 16 begin where the kernel's do.
  [[nodiscard]] std::int64_t most_rows() const noexcept { return most_rows_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }

  // One thread prepares; then all share the steps. In between they must meet.
  void begin(std::int64_t first_row);
  [[nodiscard]] bool visits(std::int64_t block) const noexcept { return first_row_ >= call_.plan.first_row_of(block); }
  void begin_block(std::int64_t block);
  [[nodiscard]] std::int64_t row_tasks() const noexcept { return (rows_ + rows_together - 1) / rows_together; }
  void take_rows(band_worker& worker, std::int64_t task, gradient_error_sink& sink);
  [[nodiscard]] std::int64_t product_tasks() const noexcept;
  void multiply(band_worker& worker, std::int64_t task);
  /// dQ of a row, when all blocks are taken.  @returns codes that differ from the kernel's
  [[nodiscard]] std::int64_t finish_row(band_worker& worker, std::int64_t i, gradient_error_sink& sink) const;
  /// The four deltas of a row. Before any block.
  void take_delta(std::int64_t row, gradient_error_sink& sink);

 private:
  static constexpr std::int64_t rows_together = 16, keys_together = 32;
  struct dq_sums {
    std::vector<double> rounded;  // [buffers × rows × d]
    std::vector<double> exact;    // [rows × d]
  };
  struct range {
    std::int64_t first, count;
  };

  void take_row(band_worker& worker, std::int64_t i, std::size_t in_worker, gradient_error_sink& sink);
  void keep(score_operand const& wanted, operand_block& block, std::int64_t i, std::span<double const> x, std::span<double const> exact);
  void multiply_queries(band_worker& worker, score_product const& product, dq_sums& sums, range rows) const;
  void add_part(score_product const& product, dq_sums& sums, range rows, std::span<double const> part) const;
  void multiply_keys(band_worker& worker, score_product const& product, operand_block const& of, column_panel const& panel, wide_panel const& wide,
                     key_sums& sums, range keys) const;
  [[nodiscard]] double dq_of(product_use const& use, std::size_t element, double exact) const;
  [[nodiscard]] strided_matrix by_rows(std::vector<double> const& m, range rows) const noexcept {
    return {m.data() + rows.first * stride_, rows.count, columns_, stride_, 1};
  }
  [[nodiscard]] strided_matrix by_keys(std::vector<double> const& m, range keys) const noexcept {
    return {m.data() + keys.first, keys.count, rows_, 1, stride_};
  }

  gradient_call const& call_;
  backward_plan const& plan_;
  backward_rules const& rules_;
  score_plan const& sets_;
  key_head_operands const& keys_;
  query_head_operands const& queries_;
  std::int64_t b_, head_, d_, most_rows_, stride_;
  head_products& products_;
  head_gradients const& exact_;
  rounded_doubles scalars_, additions_;
  std::vector<delta_values> delta_;               // [s]
  std::vector<f32_code> lse_;                     // [s], as the weight form wants it
  std::vector<operand_block> ds_, p_;
  std::vector<double> exact_weights_;             // P[rows × columns]
  std::vector<dq_sums> dq_;
  std::vector<double> weighted_keys_;             // PK[rows × d]
  std::int64_t first_row_ = 0, rows_ = 0, block_ = 0, columns_ = 0;
};

}  // namespace stickybit::detail
