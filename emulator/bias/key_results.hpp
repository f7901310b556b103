#pragma once
#include <span>
#include <vector>

#include "gradient_band.hpp"

namespace stickybit::detail {

/// dK or dV of one key head with each set asked for, from the products of its query heads.
class key_results {
 public:
  key_results(gradient_call const& call, score_plan const& sets, gradient_tensor tensor, std::int64_t b, std::int64_t key_head);

  /// The next query head of the group; the last one's products must live until all keys are finished.
  void add_head(std::int64_t head, head_products const& products);
  /// One key, when all heads are added.  @returns codes that differ from the kernel's
  [[nodiscard]] std::int64_t finish_key(std::int64_t key, std::vector<double>& errors, gradient_error_sink& sink) const;

 private:
  [[nodiscard]] bool is_error(product_use const& use) const noexcept;
  [[nodiscard]] double head_value(product_use const& use, key_sums const& sums, std::size_t element, double exact) const;
  void add_to(std::vector<std::vector<double>>& lanes, std::int64_t in_group, product_use const& use, std::size_t element, double value) const;
  [[nodiscard]] double finished(std::size_t use, std::size_t element) const;
  [[nodiscard]] std::vector<key_sums> const& sums_of(head_products const& products) const noexcept { return tensor_ == gradient_tensor::dk ? products.dk : products.dv; }

  gradient_call const& call_;
  backward_rules const& rules_;
  gradient_tensor tensor_;
  std::vector<score_product> const& products_;
  std::vector<product_use> const& uses_;
  std::int64_t b_, key_head_, group_;
  double scale_;  ///< in the outputs' place
  rounded_doubles scalars_, additions_, kept_;
  std::vector<double_double> exact_;                    // [s_k × d]
  std::vector<double> direction_;                       // [s_k × d]
  head_products const* last_ = nullptr;
  std::vector<std::vector<std::vector<double>>> sums_;  // [uses][accumulators][s_k × d]; empty for a single query head
};

}  // namespace stickybit::detail
