#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "stickybit/format/value.hpp"
#include "stickybit/identify/gemm_search.hpp"
#include "stickybit/rounding/convert.hpp"
#include "support/generators.hpp"

namespace stickybit {

/// Operands with widely spread exponents, in which each product has its negative at another k: results are rounding errors, which tell orders apart.
inline captured_product random_product(testing::random_bits& next, format input, format output, std::int64_t m, std::int64_t n, std::int64_t k) {
  captured_product p;
  p.name = "synthetic.d";
  p.input = input;
  p.output = output;
  p.m = p.rows = m;
  p.n = p.columns = n;
  p.k = k;
  p.machine = "sm90";
  for (std::int64_t i = 0; i < m; ++i) p.row_index.push_back(i * 64);
  for (std::int64_t i = 0; i < n; ++i) p.column_index.push_back(i * 64);
  p.rows = 64 * m;
  p.columns = 64 * n;
  const auto number = [&] {  // a random significand, and an exponent near 0
    const int spread = input == format::f16 ? 2 : 5;
    const std::uint32_t bits = std::uint32_t(next()) & 0x807fffffu;
    const f32_code c = f32_code::from_bits(bits | std::uint32_t(127 + next.between(-spread, spread)) << 23);
    if (input == format::bf16) return std::uint32_t{convert<format::bf16>(c).to_bits()};
    if (input == format::f16) return std::uint32_t{convert<format::f16>(c).to_bits()};
    return c.to_bits();
  };
  p.a.resize(std::size_t(m * k));
  p.b.resize(std::size_t(n * k));
  for (std::uint32_t& a : p.a) a = number();
  for (std::uint32_t& b : p.b) b = number();
  std::vector<std::size_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[next.below(std::uint32_t(i + 1))]);
  const std::uint32_t sign = input == format::tf32 ? 0x80000000u : 0x8000u;
  for (std::size_t pair = 0; pair + 1 < order.size(); pair += 2) {
    for (std::int64_t i = 0; i < m; ++i) p.a[std::size_t(i * k) + order[pair + 1]] = p.a[std::size_t(i * k) + order[pair]] ^ sign;
    for (std::int64_t i = 0; i < n; ++i) p.b[std::size_t(i * k) + order[pair + 1]] = p.b[std::size_t(i * k) + order[pair]];
  }
  p.d.resize(std::size_t(m * n));
  return p;
}

/// Blocks of `block` k in a random order.
inline std::vector<std::size_t> shuffled_blocks(testing::random_bits& next, std::int64_t k, std::int64_t block) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(k / block));
  std::iota(blocks.begin(), blocks.end(), std::int64_t{0});
  for (std::size_t i = blocks.size() - 1; i > 0; --i) std::swap(blocks[i], blocks[next.below(std::uint32_t(i + 1))]);
  std::vector<std::size_t> places;
  for (std::int64_t b : blocks)
    for (std::int64_t i = 0; i < block; ++i) places.push_back(std::size_t(b * block + i));
  return places;
}

/// D becomes what the order gives, by the definitions; `places`: in which order k are read before, empty: as they are.
inline void compute(captured_product& p, gemm_order const& order, std::vector<std::size_t> const& places = {}) {
  const auto row = [&](std::vector<std::uint32_t> const& matrix, std::int64_t i) {
    std::vector<std::uint32_t> codes(matrix.begin() + i * p.k, matrix.begin() + (i + 1) * p.k);
    if (places.empty()) return codes;
    std::vector<std::uint32_t> moved;
    for (std::size_t place : places) moved.push_back(codes[place]);
    return moved;
  };
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const std::size_t at = std::size_t(i * p.n + j);
      const std::optional<f32_code> c = p.c.empty() ? std::nullopt : std::optional(p.c[at]);
      const f32_code value = value_of(order, p.input, p.output, row(p.a, i), row(p.b, j), c, {p.row_index[std::size_t(i)], p.column_index[std::size_t(j)], p.rows, p.columns});
      p.d[at] = p.output == format::bf16 ? convert<format::bf16>(value).to_bits() : p.output == format::f16 ? convert<format::f16>(value).to_bits() : value.to_bits();
    }
}

/// An order of the space that the search walks.
inline gemm_order random_order(testing::random_bits& next, captured_product const& p) {
  const std::vector<std::string> units = candidate_units(p);
  gemm_order o{.unit = units[next.below(std::uint32_t(units.size()))], .operands = {}, .cuts = {0, p.k}, .stream = {}};
  if (p.input == format::tf32 && o.unit != fma_unit) o.operands = operand_rounding(next.below(3));
  const std::uint32_t kind = next.below(8);
  const auto equal = [&](std::int64_t granule, std::int64_t slices) {
    const std::int64_t step = ((p.k + granule - 1) / granule + slices - 1) / slices * granule;
    o.cuts = {0};
    for (std::int64_t at = step; at < p.k; at += step) o.cuts.push_back(at);
    o.cuts.push_back(p.k);
  };
  if (kind == 1 || kind == 2 || kind == 5) equal(std::array{16, 32, 64}[next.below(3)], next.between(2, 6));
  if (kind == 3) {
    o.ways = std::array{2, 3, 4}[next.below(3)];
    o.tile = o.ways * std::array{16, 32}[next.below(2)];
    if (o.tile > p.k) o.ways = 1, o.tile = 0;
  }
  if (kind == 4 && p.k > 64) {
    o.tile = 64;
    o.tiles_descending = true;
  }
  if (kind == 5) o.combine = std::array{sum_order::ascending, sum_order::descending, sum_order::neighbours, sum_order::halves}[next.below(4)];
  if (kind == 2) (next.one_in(2) ? o.partial : o.running) = p.output == format::f32 ? format::bf16 : p.output;
  if (kind == 6) {
    const std::int64_t first = 16 * next.between(1, int(p.k / 16) - 2), second = std::min(p.k - 1, first + 16 * next.between(1, 4)) / 16 * 16;
    o.cuts = second > first && second < p.k ? std::vector<std::int64_t>{0, first, second, p.k} : std::vector<std::int64_t>{0, first, p.k};
  }
  if (kind == 7 && p.k % 64 == 0 && p.k > 64) {
    o.cuts.clear();
    o.stream = stream_cuts{(p.m * p.n * (p.k / 64) + 52) / 53, 64, 64, 64, next.one_in(2)};
    if (o.stream->share % (p.k / 64) == 0) ++o.stream->share;
  }
  // Two parts have one order, three have three.
  if (o.cuts.size() <= 3 || (o.cuts.size() == 4 && o.combine == sum_order::neighbours)) o.combine = sum_order::ascending;
  return o;
}

}  // namespace stickybit
