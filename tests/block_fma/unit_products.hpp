#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/machine/machine.hpp"
#include "unit_tiles.hpp"

// A tile of any unit by the definition and by the fast form.

namespace testing {

/// What a result depends on.
inline auto numbers_of(stickybit::machine_unit const& u) {
  return std::tuple(u.input, u.input_b, u.output, u.block_size, u.alignment_fraction_bits, u.min_alignment_exponent, u.output_rounding, u.accumulator, u.output_fraction_bits, u.instruction_k,
                    u.order, u.arithmetic, u.scale_block, u.scale, u.group_size, u.sum_fraction_bits, u.flushes_subnormals);
}

/// Units with FP32 or FP16 results; of units with the same numbers the first.
inline std::vector<stickybit::machine_unit> units_of_all_machines() {
  std::vector<stickybit::machine_unit> units;
  for (stickybit::machine const* m : stickybit::all_machines())
    for (stickybit::machine_unit const& u : m->units)
      if (u.output != stickybit::format::f64 && std::none_of(units.begin(), units.end(), [&](auto const& known) { return numbers_of(known) == numbers_of(u); })) units.push_back(u);
  return units;
}

inline std::int64_t scale_count(stickybit::machine_unit const& u, std::int64_t length) { return u.scale_block == 0 ? 0 : (length + u.scale_block - 1) / u.scale_block; }

/// Every element of the tile by evaluate().
inline std::vector<std::uint32_t> by_evaluate(stickybit::machine_unit const& unit, unit_tile const& t) {
  const std::vector<std::uint64_t> a(t.a.begin(), t.a.end()), b(t.b.begin(), t.b.end()), sa(t.scale_a.begin(), t.scale_a.end()), sb(t.scale_b.begin(), t.scale_b.end());
  const auto length = std::size_t(t.length), scales = std::size_t(scale_count(unit, t.length)), width = std::size_t(t.columns);
  const auto line = [](std::vector<std::uint64_t> const& all, std::size_t i, std::size_t size) { return std::span<std::uint64_t const>(all).subspan(i * size, size); };
  std::vector<std::uint32_t> d(t.c.size());
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = std::uint32_t(evaluate(unit, {line(a, i / width, length), line(b, i % width, length), line(sa, i / width, scales), line(sb, i % width, scales), t.c[i]}));
  return d;
}

inline stickybit::column_panel panel_of(stickybit::machine_unit const& unit, unit_tile const& t) {
  stickybit::operand_scales scales;
  if (unit.scale_block > 0) scales = {t.scale_b, unit.scale, unit.scale_block, 1, scale_count(unit, t.length)};
  return {unit.input_b, t.b, t.length, t.columns, 1, t.length, scales};
}

/// Steps of a product that is computed in pieces.
struct tile_steps {
  std::int64_t k, n, rows;
};

inline std::vector<std::uint32_t> by_rows_times_panel(stickybit::rows_times_panel& product, stickybit::machine_unit const& unit, unit_tile const& t, tile_steps step) {
  using namespace stickybit;
  const column_panel panel = panel_of(unit, t);
  std::vector<f32_code> c(t.c.size());
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = f32_code::from_bits(t.c[i]);
  for (std::int64_t i = 0; i < t.rows; i += step.rows)
    for (std::int64_t k = 0; k < t.length; k += step.k)
      for (std::int64_t n = 0; n < t.columns; n += step.n) {
        const std::int64_t rows = std::min(step.rows, t.rows - i), columns = std::min(step.n, t.columns - n);
        raw_rows a{code_array(t.a).from(std::size_t(i * t.length + k)), rows, std::min(step.k, t.length - k), t.length};
        if (unit.scale_block > 0) a.scales = {code_array(t.scale_a).from(std::size_t(i * scale_count(unit, t.length) + k / unit.scale_block)), unit.scale, unit.scale_block, 1, scale_count(unit, t.length)};
        product.accumulate(a, panel, k, n, {c.data() + i * t.columns + n, rows, columns, t.columns});
      }
  std::vector<std::uint32_t> d(c.size());
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = c[i].to_bits();
  return d;
}

/// Element `at` of a tile in words that can be typed in again.
inline std::string words_of(stickybit::machine_unit const& unit, unit_tile const& t, std::size_t at, std::uint32_t got, std::uint32_t expected) {
  const auto n = std::size_t(t.length), scales = std::size_t(scale_count(unit, t.length)), i = at / std::size_t(t.columns), j = at % std::size_t(t.columns);
  return fmt::format("{}: a {:x} b {:x} scales {:x} {:x} c {:08x}: {:08x}, not {:08x}", unit.name, fmt::join(std::span(t.a).subspan(i * n, n), ","), fmt::join(std::span(t.b).subspan(j * n, n), ","),
                     fmt::join(std::span(t.scale_a).subspan(i * scales, scales), ","), fmt::join(std::span(t.scale_b).subspan(j * scales, scales), ","), t.c[at], got, expected);
}

}  // namespace testing
