#include "stickybit/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"

namespace stickybit {
namespace {

void check(gemm_problem const& p, int slices) {
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

}  // namespace

std::vector<std::int64_t> split_boundaries(std::int64_t k, int slices) {
  const std::int64_t unit = 64, units = (k + unit - 1) / unit;
  const std::int64_t step = std::max<std::int64_t>(1, (units + slices - 1) / slices) * unit;
  std::vector<std::int64_t> boundaries{0};
  for (std::int64_t at = step; at < k; at += step) boundaries.push_back(at);
  boundaries.push_back(k);
  return boundaries;
}

std::vector<f32_code> gemm(machine_unit const& unit, gemm_problem const& p, int slices, engine how, progress const& report) {
  check(p, slices);
  if (!host::is_ieee()) how = engine::definition;
  const column_panel panel(p.b.data(), p.k, p.n, 1, p.k);
  const std::vector<std::int64_t> boundaries = split_boundaries(p.k, slices);
  std::vector<f32_code> d(std::size_t(p.m * p.n), f32_code::zero());
  if (!p.c.empty()) std::copy(p.c.begin(), p.c.end(), d.begin());
  row_times_panel(unit, how);  // throws here, not inside the parallel region, when the unit does not fit

  std::int64_t done = 0;
#pragma omp parallel
  {
    row_times_panel row(unit, how);
    std::vector<f32_code> partial(std::size_t(p.n));
#pragma omp for schedule(dynamic, 4)
    for (std::int64_t i = 0; i < p.m; ++i) {
      const auto a = p.a.subspan(std::size_t(i * p.k), std::size_t(p.k));
      const auto sums = std::span(d).subspan(std::size_t(i * p.n), std::size_t(p.n));
      for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
        const auto slice = a.subspan(std::size_t(boundaries[s]), std::size_t(boundaries[s + 1] - boundaries[s]));
        if (s == 0) {
          row.accumulate(slice, panel, 0, 0, sums);
          continue;
        }
        std::fill(partial.begin(), partial.end(), f32_code::zero());
        row.accumulate(slice, panel, boundaries[s], 0, partial);
        for (std::size_t j = 0; j < partial.size(); ++j) sums[j] = add(sums[j], partial[j], subnormals::kept);
      }
      if (report) {
#pragma omp critical(stickybit_progress)
        report(++done, p.m);
      }
    }
  }
  return d;
}

std::vector<bf16_code> to_bf16(std::span<f32_code const> codes) {
  std::vector<bf16_code> rounded_codes(codes.size());
  std::transform(codes.begin(), codes.end(), rounded_codes.begin(), [](f32_code c) { return convert<format::bf16>(c); });
  return rounded_codes;
}

}  // namespace stickybit
