#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/identify/gemm_order.hpp"

namespace stickybit::detail {

/// Where K may be cut into equal slices and their like: 0, ..., K, all different.
[[nodiscard]] std::vector<std::vector<std::int64_t>> regular_cuts(std::int64_t k);

/// Orders with every regular cut, tile and walk of this unit; how sums are formed is left at its simplest.
[[nodiscard]] std::vector<gemm_order> order_shapes(std::string const& unit, operand_rounding operands, std::int64_t k);

/// The same order with every way of adding its chains and slices that differs from the others.
/// @param slices  at most so many in any element
[[nodiscard]] std::vector<gemm_order> with_sums(gemm_order const& shape, std::size_t slices, format output, bool with_c);

/// Stream-K orders of an output of rows×columns.
[[nodiscard]] std::vector<gemm_order> stream_orders(std::string const& unit, operand_rounding operands, std::int64_t rows, std::int64_t columns, std::int64_t k);

/// How far an order is from one plain chain.
[[nodiscard]] int complexity(gemm_order const& order);

/// The same for orders that are the same arithmetic in other words.
[[nodiscard]] std::string signature(gemm_order const& order, std::int64_t k, std::int64_t block);

}  // namespace stickybit::detail
