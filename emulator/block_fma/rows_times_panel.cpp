#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstring>
#include <vector>

#include "fast_blocks.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/rounding/ieee_environment.hpp"
#include "unit_forms.hpp"

namespace stickybit {
namespace {

using detail::k_chunk, detail::round_up;
constexpr std::int64_t column_group = detail::column_group, row_tile = detail::row_tile;
constexpr std::int64_t least_products = 32;  // fewer are done by the definition before the vectors are ready

/// Do NVIDIA's blocks of 16 bits chain by themselves? Then the definition needs no instructions.
bool is_chain_of_blocks(machine_unit const& u) {
  return u.arithmetic == block_arithmetic::aligned_sum && u.is_plain_chain() && u.scale_block == 0 && u.input == u.input_b && (u.input == format::bf16 || u.input == format::f16) &&
         (!detail::has_whole_instructions(u) || (u.order == product_order::ascending && u.instruction_k == u.block_size));
}

/// Up to 16 codes of c, into the tile and back; a whole row is one copy of a size that the compiler knows.
void copy_codes(f32_code const* from, std::uint32_t* to, std::int64_t columns) {
  if (columns == column_group) {
    std::memcpy(to, static_cast<void const*>(from), sizeof(std::uint32_t) * column_group);
    return;
  }
  for (std::int64_t n = 0; n < columns; ++n) to[n] = from[n].to_bits();
}
void copy_codes(std::uint32_t const* from, f32_code* to, std::int64_t columns) {
  if (columns == column_group) {
    std::memcpy(static_cast<void*>(to), from, sizeof(std::uint32_t) * column_group);
    return;
  }
  for (std::int64_t n = 0; n < columns; ++n) to[n] = f32_code::from_bits(from[n]);
}

}  // namespace

/// One accumulate(), for the parts of it.
struct rows_times_panel::call {
  machine_unit const& unit;
  raw_rows const& a;
  column_panel const& panel;
  std::int64_t k_begin, n_begin;
  matrix_rows<f32_code> c;
  machine_unit block = detail::block_unit(unit);

  [[nodiscard]] std::uint64_t a_at(std::int64_t i, std::int64_t k) const { return a.codes[std::size_t(i * a.stride + k)]; }
  [[nodiscard]] std::uint64_t b_at(std::int64_t k, std::int64_t j) const { return k < panel.k_count() ? panel.bits_at(k, n_begin + j) : 0; }
  [[nodiscard]] std::uint64_t scale_a_at(std::int64_t i, std::int64_t block_of_k) const {
    return a.scales.codes[std::size_t(block_of_k * a.scales.k_stride + i * a.scales.line_stride)];
  }
  [[nodiscard]] std::uint64_t scale_b_at(std::int64_t block_of_k, std::int64_t j) const {
    return panel.scale_codes_.data()[panel.scale_index(k_begin / unit.scale_block + block_of_k, n_begin + j)];
  }
  /// The block that begins at k, of row i and column j, by the definition; k and j count from k_begin and n_begin.
  [[nodiscard]] f32_code defined(std::int64_t i, std::int64_t k, std::int64_t j, f32_code start) const {
    detail::block_codes x;
    for (int n = 0; n < unit.block_size; ++n) {
      const std::int64_t at = k + detail::place_in_block(unit.order == product_order::pairs, n);
      x.a[std::size_t(n)] = at < a.columns ? a_at(i, at) : 0;
      x.b[std::size_t(n)] = b_at(k_begin + at, j);
    }
    for (std::int64_t first = k; unit.scale_block > 0 && first < k + unit.block_size; first += unit.scale_block) {
      const std::int64_t at = first / unit.scale_block;
      x.scale_a[std::size_t(at - k / unit.scale_block)] = first < a.columns ? scale_a_at(i, at) : detail::scale_one(unit.scale);
      x.scale_b[std::size_t(at - k / unit.scale_block)] = scale_b_at(at, j);
    }
    return detail::defined_block_of(block, x, start);
  }
};

/// Where a tile lies, from the beginning of the call, and the unit as its loop takes it.
struct rows_times_panel::tile_at {
  detail::fast_unit unit;
  std::int64_t k = 0, length = 0;
  std::int64_t chunk = 0;  ///< rows of k that were taken apart, at least length
  std::int64_t row = 0, rows = 0, column = 0;
};

rows_times_panel::rows_times_panel(machine_unit const& unit, engine how) : unit_(unit), form_(form::definition), k_step_(0) {
  const bool output = unit.output == format::f32 || unit.output == format::f16;
  if (!detail::is_operand_format(unit.input) || !detail::is_operand_format(unit.input_b) || !output || unit.arithmetic == block_arithmetic::fma_chain)
    throw shape_error(fmt::format("rows_times_panel: {}: expected a unit that takes at most 32 bits and gives FP32 or FP16", unit.name));
  if (unit.arithmetic != block_arithmetic::grouped_sum) detail::require_blocks(unit);
  k_step_ = detail::step_of_k(unit);
  if (how == engine::definition) return;
  switch (detail::fast_form_of(unit)) {
    case detail::fast_form::none: break;
    case detail::fast_form::blocks: form_ = form::blocks; break;
    case detail::fast_form::groups: form_ = form::groups; break;
    case detail::fast_form::tree: form_ = form::tree; break;
  }
}

void rows_times_panel::require_input(format in) const {
  if (unit_.input != in) throw shape_error(fmt::format("rows_times_panel: {} takes {}, not {}", unit_.name, traits_of(unit_.input).name, traits_of(in).name));
}

void rows_times_panel::check(raw_rows const& a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> const& c) const {
  if (panel.input() != unit_.input_b) throw shape_error("rows_times_panel: rows and panel must be of the unit's input formats");
  const bool scaled = unit_.scale_block > 0;
  if (panel.scale_block_ != unit_.scale_block || a.scales.block != unit_.scale_block || (scaled && (panel.scale_format_ != unit_.scale || a.scales.of != unit_.scale)))
    throw shape_error(fmt::format("rows_times_panel: {}: expected scales for every {} products, of {}", unit_.name, unit_.scale_block, traits_of(unit_.scale).name));
  if (k_begin < 0 || k_begin % k_step_ != 0 || k_begin + a.columns > round_up(panel.k_count_, k_step_) || n_begin < 0 || n_begin % column_group != 0 || n_begin + c.columns > panel.n_count_)
    throw shape_error(fmt::format("rows_times_panel: the ranges of k and n must lie inside the panel and begin at multiples of {} and 16", k_step_));
  if (a.columns % k_step_ != 0 && k_begin + a.columns < panel.k_count_) throw shape_error("rows_times_panel: a must end on a whole block or at the panel's end");
  if (a.rows != c.rows) throw shape_error("rows_times_panel: a and c must have as many rows as each other");
  if (a.rows > 0 && a.columns > 0 && std::int64_t(a.codes.size()) < (a.rows - 1) * a.stride + a.columns) throw shape_error("rows_times_panel: a has fewer codes than its shape says");
  const std::int64_t scales = scaled ? round_up(a.columns, unit_.scale_block) / unit_.scale_block : 0;
  if (scales > 0 && a.rows > 0 && std::int64_t(a.scales.codes.size()) <= (a.rows - 1) * a.scales.line_stride + (scales - 1) * a.scales.k_stride)
    throw shape_error("rows_times_panel: a has fewer scales than its shape says");
}

void rows_times_panel::by_definition(call const& of) {
  if (is_chain_of_blocks(unit_)) {
    for (std::int64_t i = 0; i < of.a.rows; ++i)
      for (std::int64_t k = 0; k < of.a.columns; k += unit_.block_size)
        for (std::int64_t j = 0; j < of.c.columns; ++j) {
          f32_code& c = of.c.data[i * of.c.stride + j];
          c = unit_.accumulator == accumulator_place::aligned ? of.defined(i, k, j, c) : detail::add_last(unit_, of.defined(i, k, j, f32_code::zero()), c, null_sink{});
        }
    return;
  }
  const std::int64_t length = of.a.columns, scales = unit_.scale_block == 0 ? 0 : round_up(length, unit_.scale_block) / unit_.scale_block;
  if (length == 0) return;
  std::vector<std::uint64_t> a(static_cast<std::size_t>(length)), b(static_cast<std::size_t>(length)), scale_a(static_cast<std::size_t>(scales)), scale_b(static_cast<std::size_t>(scales));
  for (std::int64_t j = 0; j < of.c.columns; ++j) {
    for (std::int64_t k = 0; k < length; ++k) b[std::size_t(k)] = of.b_at(of.k_begin + k, j);
    for (std::int64_t s = 0; s < scales; ++s) scale_b[std::size_t(s)] = of.scale_b_at(s, j);
    for (std::int64_t i = 0; i < of.a.rows; ++i) {
      for (std::int64_t k = 0; k < length; ++k) a[std::size_t(k)] = of.a_at(i, k);
      for (std::int64_t s = 0; s < scales; ++s) scale_a[std::size_t(s)] = of.scale_a_at(i, s);
      f32_code& c = of.c.data[i * of.c.stride + j];
      c = f32_code::from_bits(std::uint32_t(evaluate(unit_, {a, b, scale_a, scale_b, c.to_bits()})));
    }
  }
}

/// Codes of a chunk of k for all rows, in tiles.
void rows_times_panel::take_apart(call const& of, std::int64_t k, std::int64_t length) {
  const auto size = std::size_t(round_up(of.a.rows, row_tile) * length);
  values_.reserve(size);
  exponents_.reserve(size);
  const std::int64_t given = std::min(length, of.a.columns - k);
  const std::uint64_t mask = detail::code_mask(unit_.input);
  const auto fill = [&]<class T>(detail::aligned_array<T>& codes) {
    codes.reserve(size);
    if (of.a.rows % row_tile != 0 || given != length) std::fill_n(codes.data(), size, T{0});
    of.a.codes.visit([&](auto const* data) {
      for (std::int64_t i = 0; i < of.a.rows; ++i) {
        auto const* from = data + i * of.a.stride + k;
        T* to = codes.data() + i / row_tile * length * row_tile + i % row_tile;
        for (std::int64_t n = 0; n < given; ++n) to[n * row_tile] = T(from[n] & mask);
      }
    });
    if (form_ != form::groups) detail::take_rows_apart(unit_.input, codes.data(), size, values_.data(), exponents_.data());
    if (!unit_.converts_to_f16 || unit_.input != format::e4m3fn) return;
    for (std::size_t i = 0; i < size; ++i) {
      const auto e = std::int16_t(exponents_.data()[i] >> 16);
      const std::int16_t in_f16 = detail::exponent_in_f16(std::uint32_t(codes.data()[i]), std::int16_t(e - detail::exponent_bias));
      const std::int32_t biased = in_f16 + detail::exponent_bias;
      exponents_.data()[i] = std::int32_t(std::uint32_t(biased) << 16 | (std::uint32_t(biased) & 0xffff));
    }
  };
  if (unit_.input == format::tf32) fill(wide_codes_);
  else fill(codes_);
  if (form_ != form::groups) return;
  halves_.reserve(size);
  for (std::size_t i = 0; i < size; ++i) halves_.data()[i] = detail::e2m1_halves(codes_.data()[i]);
}

void rows_times_panel::take_scales(call const& of, std::int64_t k, std::int64_t length) {
  const std::int64_t count = round_up(length, unit_.scale_block) / unit_.scale_block;
  const auto size = std::size_t(round_up(of.a.rows, row_tile) * count);
  scale_exponents_.reserve(size);
  scale_values_.reserve(size);
  std::fill_n(scale_exponents_.data(), size, std::int16_t{0});
  std::fill_n(scale_values_.data(), size, 1.0);
  for (std::int64_t i = 0; i < of.a.rows; ++i)
    for (std::int64_t s = 0; s < count && k + s * unit_.scale_block < of.a.columns; ++s) {
      const detail::scale_number number = detail::scale_number_of(unit_.scale, std::uint32_t(of.scale_a_at(i, k / unit_.scale_block + s)));
      const auto at = std::size_t((i / row_tile * count + s) * row_tile + i % row_tile);
      scale_exponents_.data()[at] = number.exponent;
      scale_values_.data()[at] = number.value;
    }
}

/// One tile of four rows and 16 columns by the unit's form.
void rows_times_panel::run_tile(call const& of, tile_at const& at, std::uint32_t* c) {
  struct tile_context {
    call const* of;
    tile_at const* at;
    std::int64_t k;
  } context{&of, &at, at.k};
  const detail::defined_block defined{&context, [](void const* from, std::int64_t row, std::int64_t k, int column, std::uint32_t start) {
                                        auto const& t = *static_cast<tile_context const*>(from);
                                        return t.of->defined(t.at->row + row, t.k + k, t.at->column + column, f32_code::from_bits(start)).to_bits();
                                      }};
  detail::packed_rows a{values_.data() + at.row * at.chunk, exponents_.data() + at.row * at.chunk, nullptr, nullptr, nullptr};
  const std::size_t panel_at = of.panel.index(of.k_begin + at.k, of.n_begin + at.column);
  const bool in_f16 = unit_.converts_to_f16 && unit_.input_b == format::e4m3fn;
  detail::packed_columns b{of.panel.values_.data() + panel_at, (in_f16 ? of.panel.f16_exponents_ : of.panel.exponents_).data() + panel_at, nullptr, nullptr, nullptr};
  if (form_ == form::groups) {
    a.halves = halves_.data() + at.row * at.chunk;
    b.halves = of.panel.halves_.data() + panel_at;
  }
  if (unit_.scale_block > 0) {
    const auto row_scales = std::size_t(at.row * (round_up(at.chunk, unit_.scale_block) / unit_.scale_block));
    a.scale_exponents = scale_exponents_.data() + row_scales;
    a.scale_values = scale_values_.data() + row_scales;
    const std::size_t column_scales = of.panel.scale_index((of.k_begin + at.k) / unit_.scale_block, of.n_begin + at.column);
    b.scale_exponents = of.panel.scale_exponents_.data() + column_scales;
    b.scale_values = of.panel.scale_values_.data() + column_scales;
  }
  if (form_ == form::tree) return detail::accumulate_tree(detail::numbers_for_tree(unit_), a, b, int(at.rows), at.length, c, defined);
  if (form_ == form::groups) return detail::accumulate_groups(detail::numbers_for_groups(unit_), a, b, int(at.rows), at.length, c, defined);
  if (unit_.accumulator == accumulator_place::aligned) return detail::accumulate_tile(at.unit, a, b, int(at.rows), at.length, c, defined);
  // Instructions begin at 0, so all of them are computed before any is added.
  alignas(64) std::uint32_t results[k_chunk / 4][row_tile * column_group];
  const std::int64_t step = unit_.instruction_k;
  for (std::int64_t k = 0; k < at.length; k += step) {
    context.k = at.k + k;
    std::uint32_t* const result = results[k / step];
    std::fill_n(result, row_tile * column_group, 0u);
    detail::packed_rows rows = a;
    rows.values += k * row_tile;
    rows.exponents += k * row_tile;
    detail::packed_columns columns = b;
    columns.values += k * column_group;
    columns.exponents += k * column_group;
    detail::accumulate_tile(at.unit, rows, columns, int(at.rows), step, result, defined);
  }
  std::fesetround(FE_TONEAREST);
  for (std::int64_t k = 0; k < at.length; k += step) detail::add_results(at.unit.half_output, results[k / step], std::size_t(at.rows * column_group), c);
  std::fesetround(FE_TOWARDZERO);
}

/// Tiles of four rows and 16 columns, over k in chunks: a chunk of the panel's columns stays in the first cache for all rows.
void rows_times_panel::by_tiles(call const& of) {
  const bool half_output = unit_.output == format::f16;
  const std::int64_t end = round_up(of.a.columns, detail::has_whole_instructions(unit_) ? unit_.instruction_k : unit_.block_size);  // a further block of zeros would cut c once more
  alignas(64) std::uint32_t c[row_tile * column_group];
  const host::ieee_environment direction(form_ == form::tree ? FE_TONEAREST : FE_TOWARDZERO);  // the loops are reached through a function pointer: no compiler moves them out of here
  tile_at at{detail::numbers_for_blocks(unit_)};
  for (at.k = 0; at.k < end; at.k += k_chunk) {
    at.chunk = std::min(k_chunk, round_up(end - at.k, 16));
    at.length = std::min(k_chunk, end - at.k);
    take_apart(of, at.k, at.chunk);
    if (unit_.scale_block > 0) take_scales(of, at.k, at.chunk);
    for (at.column = 0; at.column < of.c.columns; at.column += column_group) {
      const auto columns = std::min(column_group, of.c.columns - at.column);
      std::fill(std::begin(c), std::end(c), 0x3f800000);  // columns past the last: zeros in the panel, so anything in the fast range will do
      for (at.row = 0; at.row < of.a.rows; at.row += row_tile) {
        at.rows = std::min(row_tile, of.a.rows - at.row);
        f32_code* const elements = of.c.data + at.row * of.c.stride + at.column;
        for (std::int64_t r = 0; r < at.rows; ++r) copy_codes(elements + r * of.c.stride, c + r * column_group, columns);
        if (half_output && at.k == 0)
          for (std::uint32_t& bits : c) bits = convert<format::f32>(convert<format::f16>(f32_code::from_bits(bits))).to_bits();
        run_tile(of, at, c);
        for (std::int64_t r = 0; r < at.rows; ++r) copy_codes(c + r * column_group, elements + r * of.c.stride, columns);
      }
    }
  }
}

void rows_times_panel::accumulate(raw_rows const& a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c) {
  check(a, panel, k_begin, n_begin, c);
  const call of{unit_, a, panel, k_begin, n_begin, c};
  if (form_ == form::definition || a.rows * a.columns * c.columns <= least_products) by_definition(of);
  else by_tiles(of);
}

}  // namespace stickybit
