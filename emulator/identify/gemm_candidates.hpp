#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/identify/gemm_order.hpp"

namespace stickybit::detail {

/// Where K may be cut into equal slices and their like: 0, ..., K, all different. Slices are multiples of `finest` and of its multiples.
[[nodiscard]] std::vector<std::vector<std::int64_t>> regular_cuts(std::int64_t k, std::int64_t finest);

/// Orders with every regular cut, tile and walk of this unit, whose blocks are of `block` k (FMA: 1); how sums are formed is left at its simplest.
/// No tile is smaller than a block: it would be another unit's block.
[[nodiscard]] std::vector<gemm_order> order_shapes(std::string const& unit, std::int64_t block, operand_rounding operands, std::int64_t k);

/// How an order adds its chains and slices: all of it on which chains do not depend, but for c_first.
struct sum_choice {
  sum_order join = sum_order::ascending;
  format partial = format::f32;
  sum_order combine = sum_order::ascending;
  format running = format::f32;
  bool c_first = false;
};
[[nodiscard]] gemm_order with_sums(gemm_order order, sum_choice const& sums);

/// Every way of adding that differs from the others.
/// @param slices  at most so many in any element
[[nodiscard]] std::vector<sum_choice> sum_choices(int ways, std::size_t slices, format output, bool with_c);

/// The most slices of any element of an output of rows×columns.
[[nodiscard]] std::size_t most_slices_of(gemm_order const& order, std::int64_t k, std::int64_t rows, std::int64_t columns);

/// Stream-K orders of an output of rows×columns.
[[nodiscard]] std::vector<gemm_order> stream_orders(std::string const& unit, operand_rounding operands, std::int64_t rows, std::int64_t columns, std::int64_t k);

/// How far an order is from one plain chain.
[[nodiscard]] int complexity(gemm_order const& order);

/// The same for orders that are the same arithmetic in other words.
[[nodiscard]] std::string signature(gemm_order const& order, std::int64_t k, std::int64_t block);

}  // namespace stickybit::detail
