#include "stickybit/identify/gemm_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "identify/gemm_filter.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"

namespace stickybit {

std::string_view name_of(sum_order order) noexcept {
  switch (order) {
    case sum_order::ascending: return "ascending";
    case sum_order::descending: return "descending";
    case sum_order::neighbours: return "neighbours";
    case sum_order::halves: return "halves";
    case sum_order::any: return "any";
  }
  return {};
}

std::string_view name_of(operand_rounding how) noexcept {
  switch (how) {
    case operand_rounding::cut: return "cut";
    case operand_rounding::nearest_away: return "nearest_away";
    case operand_rounding::nearest_even: return "nearest_even";
  }
  return {};
}

std::vector<std::int64_t> cuts_at(gemm_order const& order, std::int64_t k, output_place place) {
  if (!order.stream) return order.cuts;
  stream_cuts const& s = *order.stream;
  const auto tiles_of = [](std::int64_t length, std::int64_t tile) { return (length + tile - 1) / tile; };
  const std::int64_t row = place.row / s.tile_rows, column = place.column / s.tile_columns, blocks = tiles_of(k, s.block);
  const std::int64_t tile = s.down_columns ? column * tiles_of(place.rows, s.tile_rows) + row : row * tiles_of(place.columns, s.tile_columns) + column;
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t at = (tile * blocks / s.share + 1) * s.share; at < (tile + 1) * blocks; at += s.share) cuts.push_back((at - tile * blocks) * s.block);
  cuts.push_back(k);
  return cuts;
}

std::vector<k_run> runs_of(gemm_order const& order, std::int64_t begin, std::int64_t end, int way) {
  const std::int64_t length = end - begin, tile = order.tile > 0 ? order.tile : std::max<std::int64_t>(1, length), part = (tile + order.ways - 1) / order.ways;
  std::vector<k_run> runs;
  const std::int64_t first = order.short_tile_first && length % tile != 0 ? length % tile : std::min(tile, length);
  for (std::int64_t at = begin, size = first; at < end; at += size, size = std::min(tile, end - at)) {
    const std::int64_t from = std::min(at + way * part, at + size), to = std::min(from + part, at + size);
    // Runs that follow each other without a gap and without an incomplete block between them are one.
    if (from < to) runs.push_back({from, to});
  }
  if (order.tiles_descending) std::reverse(runs.begin(), runs.end());
  return runs;
}

f32_code rounded_to(format f, f32_code c, engine how) {
  if (f == format::bf16) return widen(how == engine::fast ? host::to_bf16(c) : convert<format::bf16>(c));
  if (f == format::f16) return convert<format::f32>(convert<format::f16>(c));
  return c;
}

f32_code sum_in_order(std::span<f32_code const> parts, sum_order order, format running, engine how) {
  const auto plus = [&](f32_code x, f32_code y) { return rounded_to(running, how == engine::fast ? host::add(x, y) : add(x, y, subnormals::kept), how); };
  if (parts.size() == 1) return rounded_to(running, parts.front(), how);
  if (order == sum_order::ascending || order == sum_order::descending) {
    const bool down = order == sum_order::descending;
    f32_code sum = rounded_to(running, down ? parts.back() : parts.front(), how);
    for (std::size_t i = 1; i < parts.size(); ++i) sum = plus(sum, parts[down ? parts.size() - 1 - i : i]);
    return sum;
  }
  std::vector<f32_code> level(parts.begin(), parts.end());
  for (f32_code& p : level) p = rounded_to(running, p, how);
  while (level.size() > 1) {
    const std::size_t count = level.size(), half = (count + 1) / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t first = order == sum_order::halves ? i : 2 * i, second = order == sum_order::halves ? i + half : 2 * i + 1;
      level[i] = second < count ? plus(level[first], level[second]) : level[first];
    }
    level.resize(half);
  }
  return level.front();
}

namespace {

template <format In>
code<In> operand_of(std::uint32_t bits, operand_rounding how) {
  if constexpr (In == format::tf32) {
    const f32_code wide = f32_code::from_bits(bits);
    if (how == operand_rounding::nearest_even) return convert<format::tf32>(wide);
    if (how == operand_rounding::nearest_away) return convert<format::tf32>(wide, rounding::nearest_away);
  }
  return code<In>::from_bits(typename code<In>::bits_type(bits));
}

struct element_operands {
  std::span<std::uint32_t const> a, b;
};

template <format In>
f32_code chain(gemm_order const& order, machine_unit const& unit, std::span<k_run const> runs, element_operands of, f32_code c) {
  std::vector<code<In>> a, b;
  for (k_run run : runs) {
    for (std::int64_t k = run.begin; k < run.end; ++k) {
      a.push_back(operand_of<In>(of.a[std::size_t(k)], order.operands));
      b.push_back(operand_of<In>(of.b[std::size_t(k)], order.operands));
    }
    const std::size_t whole = (a.size() + std::size_t(unit.block_size) - 1) / std::size_t(unit.block_size) * std::size_t(unit.block_size);
    a.resize(whole);
    b.resize(whole);
  }
  return inner_product<In>(unit, std::span<code<In> const>(a), std::span<code<In> const>(b), c);
}

f32_code fma_chain(format input, std::span<k_run const> runs, element_operands of, f32_code c) {
  const auto widened = [&](std::uint32_t bits) {
    if (input == format::bf16) return widen(bf16_code::from_bits(std::uint16_t(bits)));
    if (input == format::f16) return convert<format::f32>(f16_code::from_bits(std::uint16_t(bits)));
    return f32_code::from_bits(bits);
  };
  for (k_run run : runs)
    for (std::int64_t k = run.begin; k < run.end; ++k) c = fma(widened(of.a[std::size_t(k)]), widened(of.b[std::size_t(k)]), c, subnormals::kept);
  return c;
}

f32_code chain_on(gemm_order const& order, format input, std::span<k_run const> runs, element_operands of, f32_code c) {
  if (order.unit == fma_unit) return fma_chain(input, runs, of, c);
  machine_unit const& unit = unit_named(order.unit);
  switch (unit.input) {
    case format::bf16: return chain<format::bf16>(order, unit, runs, of, c);
    case format::f16: return chain<format::f16>(order, unit, runs, of, c);
    case format::tf32: return chain<format::tf32>(order, unit, runs, of, c);
    default: throw shape_error(fmt::format("orders of matrix products are known for BF16, FP16, TF32 and FP32 operands, not for unit {}", order.unit));
  }
}

}  // namespace

f32_code detail::defined_chain(gemm_order const& order, format input, std::span<k_run const> runs, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, f32_code c) {
  return chain_on(order, input, runs, {a, b}, c);
}

f32_code value_of(gemm_order const& order, format input, format output, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, std::optional<f32_code> c,
                  output_place place) {
  if (a.size() != b.size()) throw shape_error("an element needs as many k of A as of B");
  if (order.combine == sum_order::any || order.join == sum_order::any) throw shape_error("an order of additions that may be any has no one value");
  const std::vector<std::int64_t> cuts = cuts_at(order, std::int64_t(a.size()), place);
  std::vector<f32_code> slices;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    std::vector<f32_code> chains;
    for (int way = 0; way < order.ways; ++way) {
      const bool from_c = order.c_first && c && s == 0 && way == 0;
      chains.push_back(chain_on(order, input, runs_of(order, cuts[s], cuts[s + 1], way), {a, b}, from_c ? *c : f32_code::zero()));
    }
    slices.push_back(rounded_to(order.partial, sum_in_order(chains, order.join, format::f32)));
  }
  f32_code sum = sum_in_order(slices, order.combine, order.running);
  if (c && !order.c_first) sum = add(sum, *c, subnormals::kept);
  return rounded_to(output, sum);
}

}  // namespace stickybit
