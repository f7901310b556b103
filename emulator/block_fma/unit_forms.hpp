#pragma once
#include <array>
#include <cstdint>

#include "fast_blocks.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/machine/unit.hpp"

// Which fast form a unit has, and what all forms share.

namespace stickybit::detail {

constexpr std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

/// Rows of k in a panel are padded to this: the longest block.
inline constexpr std::int64_t panel_padding = 64;
inline constexpr std::int64_t k_chunk = 128;  ///< values and exponents of this many rows of a column group take 12 KiB of the first cache

enum class fast_form : std::uint8_t { none, blocks, groups, tree };
[[nodiscard]] fast_form fast_form_of(machine_unit const& unit);

[[nodiscard]] fast_unit numbers_for_blocks(machine_unit const& unit);
[[nodiscard]] group_unit numbers_for_groups(machine_unit const& unit);
[[nodiscard]] tree_unit numbers_for_tree(machine_unit const& unit);

/// Is a part of an instruction, chained to the rest, another result than the whole?
[[nodiscard]] constexpr bool has_whole_instructions(machine_unit const& u) noexcept {
  return u.accumulator == accumulator_place::added_last || u.order == product_order::pairs || !u.is_plain_chain();
}

/// Products that a chain may not be cut within, lined up with groups of 16.
[[nodiscard]] std::int64_t step_of_k(machine_unit const& unit);

/// The bits of a code that are the format's.
[[nodiscard]] std::uint64_t code_mask(format f) noexcept;

/// A format of operands that a panel holds.
[[nodiscard]] constexpr bool is_operand_format(format f) noexcept { return f != format::f32 && f != format::f64 && f != format::e8m0; }

/// E2M1 in halves: −12 to 12.
[[nodiscard]] std::int16_t e2m1_halves(std::uint32_t bits) noexcept;
/// The exponent of an E4M3 subnormal once it is FP16, where it is normal; of any other code, `otherwise`.
[[nodiscard]] std::int16_t exponent_in_f16(std::uint32_t e4m3, std::int16_t otherwise) noexcept;

/// A scale as the forms take it: the exponent it adds, and its magnitude.
struct scale_number {
  std::int16_t exponent;
  double value;
};
[[nodiscard]] scale_number scale_number_of(format f, std::uint32_t bits) noexcept;
[[nodiscard]] std::uint32_t scale_one(format f) noexcept;

/// Operands of one block, k in the order of the block.
struct block_codes {
  std::array<std::uint64_t, 64> a{}, b{}, scale_a{}, scale_b{};
};
/// The unit that is one of its blocks, c aligned with the products.
[[nodiscard]] machine_unit block_unit(machine_unit const& unit);
/// One block by the definition. @param unit block_unit()'s
[[nodiscard]] f32_code defined_block_of(machine_unit const& unit, block_codes const& x, f32_code c);

}  // namespace stickybit::detail
