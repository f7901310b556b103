#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stickybit/attention/backward.hpp"

// What a backward kernel gives for dQ when the key blocks' parts are added in no fixed order, as atomic additions are: to one FP32
// buffer that begins as +0, then scaled and cast by the schedule's own rule. Every other bit of the backward pass is deterministic.

namespace stickybit {

/// Parts of one element up to which every order is decided: beyond, orders are searched.
inline constexpr std::size_t max_exact_dq_parts = 8;
/// Blocks of keys up to which every common order of a row, a tile or a head is tried.
inline constexpr std::int64_t max_common_order_blocks = 6;

/// Every FP32 sum that the parts can give, added to +0 one by one in some order: distinct codes, ascending as unsigned bits.
/// @throws std::invalid_argument for more than max_exact_dq_parts parts
/// @checked tests/attention: equal to adding in each of the n! orders, n ≤ 7
[[nodiscard]] std::vector<f32_code> reachable_sums(std::span<f32_code const> parts, subnormals s, engine how = engine::fast);

/// Who shares a drawn order.
enum class order_draw : std::uint8_t {
  whole_call,    ///< every element: one order of the blocks, of which a row takes those that its tile visits
  each_element,  ///< nobody: one draw for each element
};

struct dq_order_options {
  std::int64_t tries = 64;  ///< orders drawn, ≥ 1. Equally likely; the same order may come twice
  std::uint64_t seed = 1;   ///< the same seed gives the same orders on every machine, with any number of threads
  order_draw draw = order_draw::whole_call;  ///< of sample_dq_orders
  engine how = engine::fast;
  progress report = {};
};

/// What the drawn orders gave, element by element, in q's layout.
struct dq_spread {
  std::vector<std::int32_t> distinct;       ///< BF16 codes; all NaN are one
  std::vector<bf16_code> lowest, highest;   ///< of the numbers; NaN where no order gave one
  std::int64_t varying = 0;                 ///< elements with more than one code
  std::int64_t largest_ulps = 0;            ///< largest of ulps_between(lowest, highest)
  std::optional<std::int64_t> largest_at;   ///< its first element; none where nothing varies
};

/// Steps from one BF16 number to the next between the two; the zeros are one number. 0 where one is NaN.
[[nodiscard]] std::int64_t ulps_between(bf16_code low, bf16_code high) noexcept;

/// dQ in `tries` orders. Memory: the parts of one head, 4·s·d bytes a block of keys.
/// @throws unsupported_call where the schedule's dQ has no parts, or another thing depends on their order; else as attention_backward
[[nodiscard]] dq_spread sample_dq_orders(attention_schedule const& schedule, attention_problem const& problem, forward_result const& forward,
                                         dq_order_options const& options = {});

enum class order_verdict : std::uint8_t {
  explained,   ///< some order of the element's parts gives the captured code
  impossible,  ///< none does; said only where every order was decided
  not_found,   ///< none of the orders tried does
};

/// An element that no order, or none that was tried, explains.
struct unexplained_element {
  std::int64_t index;
  bf16_code captured;
  std::vector<bf16_code> reachable;  ///< impossible: all that can be; not_found: all that were seen. Ascending as unsigned bits
};

/// How many rows, tiles of query rows and heads one order of all blocks explains whole.
struct common_orders {
  std::int64_t rows = 0, rows_explained = 0, tiles = 0, tiles_explained = 0, heads = 0, heads_explained = 0;
};

struct dq_explanation {
  std::vector<order_verdict> verdicts;  // in q's layout
  std::int64_t explained = 0, impossible = 0, not_found = 0;
  std::optional<unexplained_element> first_impossible, first_not_found;
  std::optional<common_orders> common;  ///< up to max_common_order_blocks blocks
};

/// Does some order of its parts give each captured element of dQ? Each element may have its own. NaN explains NaN.
/// Up to max_exact_dq_parts parts the answer is exact; beyond, ascending, descending, their rotations and `tries` drawn orders are tried.
/// @param captured  dQ in q's layout
/// @throws as sample_dq_orders; std::invalid_argument where captured has another size
[[nodiscard]] dq_explanation explain_dq(attention_schedule const& schedule, attention_problem const& problem, forward_result const& forward,
                                        std::span<bf16_code const> captured, dq_order_options const& options = {});

}  // namespace stickybit
