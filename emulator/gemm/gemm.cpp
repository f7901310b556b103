#include "stickybit/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gemm/rows_at_once.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/rounding/arithmetic.hpp"

namespace stickybit {
namespace {

template <format In>
void check(gemm_problem_of<In> const& p, int slices) {
  if (p.m < 0 || p.n < 0 || p.k < 0) throw shape_error("gemm: M, N and K must not be negative");
  const auto need = [](const char* name, std::size_t found, std::int64_t rows, std::int64_t columns) {
    if (std::int64_t(found) != rows * columns)
      throw shape_error(fmt::format("gemm: {} has {} elements, expected {} x {}", name, found, rows, columns));
  };
  need("a", p.a.size(), p.m, p.k);
  need("b", p.b.size(), p.n, p.k);
  if (!p.c.empty()) need("c", p.c.size(), p.m, p.n);
  if (slices < 1) throw shape_error(fmt::format("gemm: K cannot be cut into {} slices", slices));
}

template <format In>
std::vector<f32_code> product(machine_unit const& unit, gemm_problem_of<In> const& p, int slices, engine how, progress const& report) {
  check(p, slices);
  require_matrix_unit(unit);
  rows_times_panel(unit, how);  // throws here, not inside the parallel region, when the unit does not fit
  if (unit.input != In) throw shape_error(fmt::format("gemm: unit {} takes {}, the operands are {}", unit.name, traits_of(unit.input).name, traits_of(In).name));
  const column_panel panel(p.b.data(), p.k, p.n, 1, p.k);
  const std::vector<std::int64_t> boundaries = split_boundaries(p.k, slices);
  std::vector<f32_code> d(std::size_t(p.m * p.n), f32_code::zero());
  if (!p.c.empty()) std::copy(p.c.begin(), p.c.end(), d.begin());

  const std::int64_t rows = detail::rows_at_once(p.m);
  std::int64_t done = 0;
#pragma omp parallel
  {
    rows_times_panel product(unit, how);
    std::vector<f32_code> partial(slices > 1 ? std::size_t(rows * p.n) : 0);
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < p.m; i += rows) {
      const std::int64_t count = std::min(rows, p.m - i);
      const matrix_rows<f32_code> sums(d.data() + i * p.n, count, p.n, p.n);
      for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
        const matrix_rows<code<In> const> slice(p.a.data() + i * p.k + boundaries[s], count, boundaries[s + 1] - boundaries[s], p.k);
        if (s == 0) {
          product.accumulate(slice, panel, 0, 0, sums);
          continue;
        }
        std::fill(partial.begin(), partial.end(), f32_code::zero());
        product.accumulate(slice, panel, boundaries[s], 0, matrix_rows<f32_code>(partial.data(), count, p.n, p.n));
        for (std::int64_t j = 0; j < count * p.n; ++j) sums.data[j] = add(sums.data[j], partial[std::size_t(j)], subnormals::kept);
      }
      if (report) {
#pragma omp critical(stickybit_progress)
        report(done += count, p.m);
      }
    }
  }
  return d;
}

}  // namespace

void require_matrix_unit(machine_unit const& unit) {
  if (unit.input != format::bf16 && unit.input != format::f16)
    throw shape_error(fmt::format("unit {} takes {}: matrix products are computed for units that take bf16 or f16; `explain dot` and inner products take this one", unit.name, traits_of(unit.input).name));
}

std::vector<std::int64_t> split_boundaries(std::int64_t k, int slices) {
  const std::int64_t unit = 64, units = (k + unit - 1) / unit;
  const std::int64_t step = std::max<std::int64_t>(1, (units + slices - 1) / slices) * unit;
  std::vector<std::int64_t> boundaries{0};
  for (std::int64_t at = step; at < k; at += step) boundaries.push_back(at);
  boundaries.push_back(k);
  return boundaries;
}

std::vector<f32_code> gemm(machine_unit const& unit, gemm_problem const& p, int slices, engine how, progress const& report) { return product(unit, p, slices, how, report); }
std::vector<f32_code> gemm(machine_unit const& unit, f16_gemm_problem const& p, int slices, engine how, progress const& report) { return product(unit, p, slices, how, report); }

std::vector<bf16_code> to_bf16(std::span<f32_code const> codes) {
  std::vector<bf16_code> rounded_codes(codes.size());
  std::transform(codes.begin(), codes.end(), rounded_codes.begin(), [](f32_code c) { return convert<format::bf16>(c); });
  return rounded_codes;
}

}  // namespace stickybit
