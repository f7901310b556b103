#include "stickybit/block_fma/column_panel.hpp"

#include <algorithm>
#include <array>

#include "fast_blocks.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

constexpr std::int64_t k_group = 16;  // k is padded to this
constexpr std::int64_t column_group = detail::column_group, row_tile = detail::row_tile;
constexpr std::int64_t k_chunk = 128;  // values and exponents of this many rows of a column group take 12 KiB of the first cache
constexpr std::int64_t least_products = 32;  // fewer are done by the definition before the vectors are ready

constexpr std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

bool is_covered(machine_unit const& u) {
  const bool half = u.output == format::f16;
  const int lowest = detail::lowest_fast_exponent(u.alignment_fraction_bits);
  const bool output = half ? u.output_rounding == rounding::nearest_even && u.min_alignment_exponent >= lowest && u.min_alignment_exponent <= detail::highest_fast_exponent
                           : u.output_rounding == rounding::toward_zero && u.min_alignment_exponent <= lowest;
  const bool block = u.block_size == 4 || u.block_size == 8 || u.block_size == 16;
  // Products of a block must fit into 31 bits.
  return u.has_usual_rules() && block && output && u.output_fraction_bits >= 23 && u.accumulator == accumulator_place::aligned && u.alignment_fraction_bits >= 8 && u.alignment_fraction_bits <= 29 &&
         std::int64_t{u.block_size} << u.alignment_fraction_bits <= std::int64_t{1} << 29;
}

}  // namespace

template <format In>
column_panel::column_panel(code<In> const* data, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride)
    : input_(In), k_count_(k_count), n_count_(n_count), k_padded_(round_up(k_count, k_group)) {
  const auto size = std::size_t(k_padded_ * round_up(n_count, column_group));
  codes_.reserve(size);
  values_.reserve(size);
  exponents_.reserve(size);
  std::fill_n(codes_.data(), size, code<In>::zero().to_bits());
  for (std::int64_t group = 0; group < n_count; group += column_group)
    for (std::int64_t n = 0; n < std::min(column_group, n_count - group); ++n) {
      code<In> const* from = data + (group + n) * n_stride;
      std::uint16_t* to = codes_.data() + index(0, group) + n;
      for (std::int64_t k = 0; k < k_count; ++k) to[k * column_group] = from[k * k_stride].to_bits();
    }
  const host::ieee_environment ieee;  // subnormals are numbers
  detail::take_columns_apart(In, codes_.data(), size, values_.data(), exponents_.data());
}
template column_panel::column_panel(bf16_code const*, std::int64_t, std::int64_t, std::int64_t, std::int64_t);
template column_panel::column_panel(f16_code const*, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

rows_times_panel::rows_times_panel(machine_unit const& unit, engine how) : unit_(unit), engine_(how) {
  const bool input = unit.input == format::bf16 || unit.input == format::f16, output = unit.output == format::f32 || unit.output == format::f16;
  if (!input || !output || unit.block_size < 1 || k_group % unit.block_size != 0)
    throw shape_error("rows_times_panel: the unit must take BF16 or FP16 in blocks that divide 16 products, and give FP32 or FP16");
  if (!unit.is_plain_chain()) throw shape_error("rows_times_panel: the unit's blocks must be consecutive products, each result the next one's c");
  if (!is_covered(unit)) engine_ = engine::definition;
}

/// One accumulate(), for the parts of it.
template <format In>
struct rows_times_panel::call {
  machine_unit const& unit;
  matrix_rows<code<In> const> a;
  column_panel const& panel;
  std::int64_t k_begin, n_begin;
  matrix_rows<f32_code> c;

  /// The block at k of row i and column j by the definition; k and j count from k_begin and n_begin.
  [[nodiscard]] f32_code defined(std::int64_t i, std::int64_t k, std::int64_t j, f32_code start) const {
    const auto size = std::size_t(unit.block_size);
    std::array<code<In>, k_group> row{}, column{};
    std::copy_n(a.data + i * a.stride + k, std::clamp<std::int64_t>(a.columns - k, 0, unit.block_size), row.begin());
    for (std::int64_t n = 0; n < unit.block_size; ++n) column[std::size_t(n)] = panel.at<In>(k_begin + k + n, n_begin + j);
    return block_fma<In>(unit, std::span<code<In> const>(row).first(size), std::span<code<In> const>(column).first(size), start);
  }
};

template <format In>
void rows_times_panel::by_definition(call<In> const& of) {
  for (std::int64_t i = 0; i < of.a.rows; ++i)
    for (std::int64_t k = 0; k < of.a.columns; k += unit_.block_size)
      for (std::int64_t j = 0; j < of.c.columns; ++j) {
        f32_code& c = of.c.data[i * of.c.stride + j];
        c = of.defined(i, k, j, c);
      }
}

/// Codes of a chunk of k for all rows, in tiles.
template <format In>
void rows_times_panel::take_apart(call<In> const& of, std::int64_t k, std::int64_t length) {
  const auto size = std::size_t(round_up(of.a.rows, row_tile) * length);
  codes_.reserve(size);
  values_.reserve(size);
  exponents_.reserve(size);
  const std::int64_t given = std::min(length, of.a.columns - k);
  if (of.a.rows % row_tile != 0 || given != length) std::fill_n(codes_.data(), size, code<In>::zero().to_bits());
  for (std::int64_t i = 0; i < of.a.rows; ++i) {
    code<In> const* from = of.a.data + i * of.a.stride + k;
    std::uint16_t* to = codes_.data() + i / row_tile * length * row_tile + i % row_tile;
    for (std::int64_t n = 0; n < given; ++n) to[n * row_tile] = from[n].to_bits();
  }
  detail::take_rows_apart(In, codes_.data(), size, values_.data(), exponents_.data());
}

/// Tiles of four rows and 16 columns, over k in chunks: a chunk of the panel's columns stays in the first cache for all rows.
template <format In>
void rows_times_panel::by_tiles(call<In> const& of) {
  struct tile_context {
    call<In> const* of;
    std::int64_t row, k, column;
  } context{&of, 0, 0, 0};
  const detail::defined_block defined{&context, [](void const* at, std::int64_t row, std::int64_t k, int column, std::uint32_t c) {
                                        auto const& t = *static_cast<tile_context const*>(at);
                                        return t.of->defined(t.row + row, t.k + k, t.column + column, f32_code::from_bits(c)).to_bits();
                                      }};
  const detail::fast_unit unit{unit_.block_size, unit_.alignment_fraction_bits, unit_.output == format::f16, unit_.min_alignment_exponent};
  const std::int64_t end = round_up(of.a.columns, unit_.block_size);  // a further block of zeros would cut c once more
  alignas(64) std::uint32_t c[row_tile * column_group];
  const host::ieee_environment toward_zero(FE_TOWARDZERO);  // the loops are reached through a function pointer: no compiler moves them out of here
  for (std::int64_t k = 0; k < end; k += k_chunk) {
    const std::int64_t length = std::min(k_chunk, round_up(end - k, k_group));
    take_apart(of, k, length);
    for (std::int64_t j = 0; j < of.c.columns; j += column_group) {
      const auto columns = std::min(column_group, of.c.columns - j);
      std::fill(std::begin(c), std::end(c), 0x3f800000);  // columns past the last: zeros in the panel, so anything in the fast range will do
      const std::size_t panel_at = of.panel.index(of.k_begin + k, of.n_begin + j);
      for (std::int64_t i = 0; i < of.a.rows; i += row_tile) {
        const auto rows = std::min(row_tile, of.a.rows - i);
        for (std::int64_t r = 0; r < rows; ++r) {
          f32_code const* from = of.c.data + (i + r) * of.c.stride + j;
          for (std::int64_t n = 0; n < columns; ++n) c[r * column_group + n] = (unit.half_output && k == 0 ? convert<format::f32>(convert<format::f16>(from[n])) : from[n]).to_bits();
        }
        context = {&of, i, k, j};
        detail::accumulate_tile(unit, {values_.data() + i * length, exponents_.data() + i * length}, {of.panel.values_.data() + panel_at, of.panel.exponents_.data() + panel_at}, int(rows),
                                std::min(k_chunk, end - k), c, defined);
        for (std::int64_t r = 0; r < rows; ++r) {
          f32_code* const to = of.c.data + (i + r) * of.c.stride + j;
          for (std::int64_t n = 0; n < columns; ++n) to[n] = f32_code::from_bits(c[r * column_group + n]);
        }
      }
    }
  }
}

template <format In>
void rows_times_panel::accumulate(matrix_rows<code<In> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c) {
  if (unit_.input != In || panel.input() != In) throw shape_error("rows_times_panel: rows and panel must be of the unit's input format");
  if (k_begin < 0 || k_begin % k_group != 0 || k_begin + a.columns > panel.k_padded_ || n_begin < 0 || n_begin % column_group != 0 || n_begin + c.columns > panel.n_count_)
    throw shape_error("rows_times_panel: the ranges of k and n must lie inside the panel and begin at multiples of 16");
  if (a.columns % k_group != 0 && k_begin + a.columns < panel.k_count_) throw shape_error("rows_times_panel: a must end on a whole block or at the panel's end");
  if (a.rows != c.rows) throw shape_error("rows_times_panel: a and c must have as many rows as each other");
  const call<In> of{unit_, a, panel, k_begin, n_begin, c};
  if (engine_ == engine::definition || a.rows * a.columns * c.columns <= least_products) by_definition(of);
  else by_tiles(of);
}
template void rows_times_panel::accumulate(matrix_rows<bf16_code const>, column_panel const&, std::int64_t, std::int64_t, matrix_rows<f32_code>);
template void rows_times_panel::accumulate(matrix_rows<f16_code const>, column_panel const&, std::int64_t, std::int64_t, matrix_rows<f32_code>);

}  // namespace stickybit
