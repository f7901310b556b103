#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/format/format.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// In which order numbers p0, p1, ... are added, each addition in FP32 to nearest even.
enum class sum_order : std::uint8_t {
  ascending,   ///< ((p0 + p1) + p2) + ...
  descending,  ///< ((pn + pn-1) + ...) + p0
  neighbours,  ///< (p0 + p1) + (p2 + p3), then the same again; one without a neighbour stays
  halves,      ///< p[i] + p[i + h], h half of them rounded up, then the same again
  any,         ///< some ascending order of some permutation, another in each element: atomic additions
};
[[nodiscard]] std::string_view name_of(sum_order order) noexcept;

/// How FP32 operands become TF32 before the unit reads them.
enum class operand_rounding : std::uint8_t { cut, nearest_away, nearest_even };
[[nodiscard]] std::string_view name_of(operand_rounding how) noexcept;

/// Stream-K: the blocks of K of all output tiles in one line, dealt in equal shares; a tile is cut where a share ends.
struct stream_cuts {
  std::int64_t share = 0;         ///< blocks in a share
  std::int64_t block = 0;         ///< k in a block
  std::int64_t tile_rows = 0, tile_columns = 0;
  bool down_columns = false;      ///< tiles are counted down columns, else along rows
  friend bool operator==(stream_cuts const&, stream_cuts const&) = default;
};

/// Which additions give one element of D[M×N] = A[M×K] · B[N×K]ᵀ, and in which order.
///
/// K is cut into slices. A slice is walked in tiles of `tile` k, of which each of `ways` chains takes an equal part; a chain is what `unit` makes of its
/// products from +0. The chains of a slice are added (`join`), that sum is rounded to `partial`, and the slices' are added (`combine`), after each addition
/// rounded to `running`. The last sum is rounded to the output's format. All to nearest even.
struct gemm_order {
  std::string unit;                   ///< a machine's unit, or fma_unit
  operand_rounding operands = operand_rounding::cut;
  std::vector<std::int64_t> cuts;     ///< 0, ..., K; empty where `stream` says
  std::optional<stream_cuts> stream;
  std::int64_t tile = 0;              ///< k in a tile; 0: the slice is one tile
  int ways = 1;                       ///< divides tile
  bool short_tile_first = false;      ///< a slice's incomplete tile is its first, filled with zeros at its end; else its last
  bool tiles_descending = false;
  sum_order join = sum_order::ascending;
  format partial = format::f32;
  sum_order combine = sum_order::ascending;
  format running = format::f32;
  bool c_first = false;               ///< C is where the first slice's first chain begins; else it is added to the last sum

  friend bool operator==(gemm_order const&, gemm_order const&) = default;
};

/// One IEEE FP32 FMA a product, in ascending k: what a GPU computes without tensor cores.
inline constexpr std::string_view fma_unit = "fp32.fma";

/// Where an element lies in the whole output.
struct output_place {
  std::int64_t row = 0, column = 0, rows = 1, columns = 1;
};

/// 0, ..., K, of this element's tile.
[[nodiscard]] std::vector<std::int64_t> cuts_at(gemm_order const& order, std::int64_t k, output_place place);

/// [begin, end) of k, whose products stand in the unit's blocks from a new block on; the last block is filled with zeros.
struct k_run {
  std::int64_t begin, end;
};
/// The runs of chain `way` of the slice [begin, end), in the order in which they are added.
[[nodiscard]] std::vector<k_run> runs_of(gemm_order const& order, std::int64_t begin, std::int64_t end, int way);

/// Adds `parts` in this order, after each addition rounded to `running`. @pre not empty; order is not `any`
/// With engine::fast by the host's additions, the same codes. @pre then the host is IEEE
[[nodiscard]] f32_code sum_in_order(std::span<f32_code const> parts, sum_order order, format running, engine how = engine::definition);

/// The FP32 code of the value rounded to FP32, BF16 or FP16, to nearest even.
[[nodiscard]] f32_code rounded_to(format f, f32_code c, engine how = engine::definition);

/// One element, by the definitions: inner_product() of each chain, ordinary additions.
/// @param a, b  K codes of `input` (BF16, FP16, or FP32 for TF32 units and FMA)
/// @returns     the FP32 code of the output's number
/// @throws      shape_error where lengths differ, or the order has no definite combination (`any`)
[[nodiscard]] f32_code value_of(gemm_order const& order, format input, format output, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, std::optional<f32_code> c,
                                output_place place);

/// "unit=sm90.wgmma.bf16.f32 slices=3 cuts=0,1408,2816,4096 partial=f32 combine=ascending": only what is not trivial; the same words as a file's `truth`.
[[nodiscard]] std::string text_of(gemm_order const& order, format output);

/// Does a statement in those words ("slices=3 partial=f32") hold for the order? `unit` may be a machine's other unit with the same numbers.
/// @returns the first word that does not hold, or nothing
/// @throws std::invalid_argument naming a word that is not understood
[[nodiscard]] std::optional<std::string> contradiction(gemm_order const& order, format output, std::string_view statement);

}  // namespace stickybit
