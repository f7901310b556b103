#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "identify/gemm_candidates.hpp"
#include "identify/gemm_element.hpp"
#include "stickybit/identify/gemm_search.hpp"

namespace stickybit::detail {

/// An element of the captured output and its products on one unit.
class captured_element {
 public:
  captured_element(captured_product const& of, chain_unit const& by, std::int64_t element);

  /// Does the order give this element? A NaN equals any NaN.
  [[nodiscard]] bool agrees(gemm_order const& order) const;
  /// Drops those sums of the order's chains that do not give this element.
  void keep_agreeing(gemm_order const& order, std::vector<sum_choice>& sums) const;
  /// Counts those that do not.
  void count_failures(gemm_order const& order, std::vector<sum_choice> const& sums, std::vector<std::int64_t>& failures) const;

  [[nodiscard]] element_products const& products() const noexcept { return products_; }
  /// Is this sum, rounded to the output's format, the captured element?
  [[nodiscard]] bool is(f32_code sum) const;
  [[nodiscard]] output_place place() const noexcept { return place_; }

 private:
  /// [slices][ways]: the chains of this element.
  [[nodiscard]] std::vector<std::vector<f32_code>> chains(gemm_order const& order, bool c_first) const;
  [[nodiscard]] bool agrees(sum_choice const& sums, std::vector<std::vector<f32_code>> const& chains) const;

  format input_, output_;
  std::span<std::uint32_t const> a_, b_;
  std::optional<f32_code> c_;
  std::uint32_t wanted_;
  output_place place_;
  engine how_;
  element_products products_;
};

/// A chain of the order by the definition, for operands that the fast form leaves to it.
[[nodiscard]] f32_code defined_chain(gemm_order const& order, format input, std::span<k_run const> runs, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, f32_code c);

/// Orders with up to three cuts of K anywhere, in whole granules, that give every one of `elements`.
[[nodiscard]] std::vector<gemm_order> free_cut_orders(std::vector<captured_element> const& elements, gemm_order const& plain, std::int64_t k, format output);

}  // namespace stickybit::detail
