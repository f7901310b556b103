#include "stickybit/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "block_fma/fast_blocks.hpp"
#include "gemm/guarded_progress.hpp"
#include "gemm/rows_at_once.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

void check(machine_unit const& unit, gemm_bits_problem const& p, int slices) {
  if (p.m < 0 || p.n < 0 || p.k < 0) throw shape_error("gemm: M, N and K must not be negative");
  const auto need = [](const char* name, std::size_t found, std::int64_t rows, std::int64_t columns) {
    if (std::int64_t(found) != rows * columns)
      throw shape_error(fmt::format("gemm: {} has {} elements, expected {} x {}", name, found, rows, columns));
  };
  need("a", p.a.size(), p.m, p.k);
  need("b", p.b.size(), p.n, p.k);
  if (!p.c.empty()) need("c", p.c.size(), p.m, p.n);
  const std::int64_t scales = unit.scale_block == 0 ? 0 : (p.k + unit.scale_block - 1) / unit.scale_block;
  need("scale_a", p.scale_a.size(), p.m, scales);
  need("scale_b", p.scale_b.size(), p.n, scales);
  if (slices < 1) throw shape_error(fmt::format("gemm: K cannot be cut into {} slices", slices));
}

/// Groups of rows on all threads. f(first row, rows); Worker() makes what one thread keeps.
template <class Worker>
void for_rows(std::int64_t m, progress const& report, Worker&& worker) {
  const std::int64_t rows = detail::rows_at_once(m);
  std::int64_t done = 0;
  detail::guarded_progress told(report);
#pragma omp parallel
  {
    auto take_rows = worker(rows);
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < m; i += rows) {
      const std::int64_t count = std::min(rows, m - i);
      if (told.stopped()) continue;
      take_rows(i, count);
      if (told.wanted()) {
#pragma omp critical(stickybit_progress)
        told(done += count, m);
      }
    }
  }
  told.rethrow();
}

std::vector<f32_code> product(machine_unit const& unit, gemm_bits_problem const& p, int slices, engine how, progress const& report) {
  check(unit, p, slices);
  const rows_times_panel first(unit, how);  // throws here, not inside the parallel region, when the unit does not fit
  const std::vector<std::int64_t> boundaries = split_boundaries(p.k, slices);
  if (boundaries.size() > 2 && boundaries[1] % first.k_step() != 0)
    throw shape_error(fmt::format("gemm: slices of {} cut the {} products of an instruction of {}", boundaries[1], first.k_step(), unit.name));
  const std::int64_t scales = unit.scale_block == 0 ? 0 : (p.k + unit.scale_block - 1) / unit.scale_block;
  const auto scales_of = [&](code_array codes) { return operand_scales{codes, unit.scale, unit.scale_block, 1, scales}; };
  const column_panel panel(unit.input_b, p.b, p.k, p.n, 1, p.k, scales_of(p.scale_b));
  std::vector<f32_code> d(std::size_t(p.m * p.n), f32_code::zero());
  for (std::size_t i = 0; i < p.c.size(); ++i) d[i] = f32_code::from_bits(std::uint32_t(p.c[i]));

  for_rows(p.m, report, [&](std::int64_t rows) {
    return [&, multiply = rows_times_panel(unit, how), partial = std::vector<f32_code>(slices > 1 ? std::size_t(rows * p.n) : 0)](std::int64_t i, std::int64_t count) mutable {
      const matrix_rows<f32_code> sums(d.data() + i * p.n, count, p.n, p.n);
      for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
        const std::int64_t k = boundaries[s];
        const std::int64_t first_scale = unit.scale_block == 0 ? 0 : k / unit.scale_block;
        const raw_rows slice{p.a.from(std::size_t(i * p.k + k)), count, boundaries[s + 1] - k, p.k, scales_of(p.scale_a.from(std::size_t(i * scales + first_scale)))};
        if (s == 0) {
          multiply.accumulate(slice, panel, 0, 0, sums);
          continue;
        }
        std::fill(partial.begin(), partial.end(), f32_code::zero());
        multiply.accumulate(slice, panel, k, 0, matrix_rows<f32_code>(partial.data(), count, p.n, p.n));
        for (std::int64_t j = 0; j < count * p.n; ++j) sums.data[j] = add(sums.data[j], partial[std::size_t(j)], subnormals::kept);
      }
    };
  });
  return d;
}

/// FP64: B is turned over once, so that columns lie side by side.
std::vector<std::uint64_t> fp64_product(machine_unit const& unit, gemm_bits_problem const& p, int slices, engine how, progress const& report) {
  check(unit, p, slices);
  const std::vector<std::int64_t> boundaries = split_boundaries(p.k, slices);
  const auto numbers = [](code_array codes) {
    std::vector<double> x(codes.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<double>(codes[i]);
    return x;
  };
  const std::vector<double> a = numbers(p.a);
  std::vector<double> b(p.b.size()), d = numbers(p.c);
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t k = 0; k < p.k; ++k) b[std::size_t(k * p.n + n)] = std::bit_cast<double>(p.b[std::size_t(n * p.k + k)]);
  d.resize(std::size_t(p.m * p.n));
  const double one_nan = std::bit_cast<double>(std::uint64_t{0x7fffffffffffffff});
  const auto by_definition = [&](std::int64_t i, std::int64_t begin, std::int64_t end, double* c) {
    std::vector<std::uint64_t> row, column(static_cast<std::size_t>(end - begin));
    for (std::int64_t k = begin; k < end; ++k) row.push_back(p.a[std::size_t(i * p.k + k)]);
    for (std::int64_t n = 0; n < p.n; ++n) {
      for (std::int64_t k = begin; k < end; ++k) column[std::size_t(k - begin)] = p.b[std::size_t(n * p.k + k)];
      c[n] = std::bit_cast<double>(evaluate(unit, {row, column, {}, {}, std::bit_cast<std::uint64_t>(c[n])}));
    }
  };
  for_rows(p.m, report, [&](std::int64_t) {
    return [&, partial = std::vector<double>(slices > 1 ? std::size_t(p.n) : 0)](std::int64_t first, std::int64_t count) mutable {
      const host::ieee_environment ieee;
      for (std::int64_t i = first; i < first + count; ++i)
        for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
          const std::int64_t begin = boundaries[s], end = boundaries[s + 1];
          double* const sums = d.data() + i * p.n;
          double* const c = s == 0 ? sums : partial.data();
          if (s > 0) std::fill(partial.begin(), partial.end(), 0.0);
          if (how == engine::definition) by_definition(i, begin, end, c);
          else detail::accumulate_fma(a.data() + i * p.k + begin, b.data() + begin * p.n, std::size_t(p.n), std::size_t(end - begin), std::size_t(p.n), c);
          for (std::int64_t n = 0; s > 0 && n < p.n; ++n) {
            const double sum = sums[n] + c[n];
            sums[n] = sum == sum ? sum : one_nan;
          }
        }
    };
  });
  std::vector<std::uint64_t> bits(d.size());
  std::transform(d.begin(), d.end(), bits.begin(), [](double x) { return std::bit_cast<std::uint64_t>(x); });
  return bits;
}

template <format In>
std::vector<f32_code> typed_product(machine_unit const& unit, gemm_problem_of<In> const& p, int slices, engine how, progress const& report) {
  if (unit.input != In || unit.input_b != In) {
    const auto name = [](format f) { return traits_of(f).name; };
    throw shape_error(fmt::format("gemm: unit {} takes {} and {}, the operands are {}: gemm_bits() takes any unit", unit.name, name(unit.input), name(unit.input_b), name(In)));
  }
  return product(unit, {p.m, p.n, p.k, p.a, p.b, p.c, {}, {}}, slices, how, report);
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

std::vector<f32_code> gemm(machine_unit const& unit, gemm_problem const& p, int slices, engine how, progress const& report) { return typed_product(unit, p, slices, how, report); }
std::vector<f32_code> gemm(machine_unit const& unit, f16_gemm_problem const& p, int slices, engine how, progress const& report) { return typed_product(unit, p, slices, how, report); }

std::vector<std::uint64_t> gemm_bits(machine_unit const& unit, gemm_bits_problem const& p, int slices, engine how, progress const& report) {
  if (unit.arithmetic == block_arithmetic::fma_chain) return fp64_product(unit, p, slices, how, report);
  const std::vector<f32_code> d = product(unit, p, slices, how, report);
  std::vector<std::uint64_t> bits(d.size());
  std::transform(d.begin(), d.end(), bits.begin(), [](f32_code c) { return std::uint64_t{c.to_bits()}; });
  return bits;
}

std::vector<bf16_code> to_bf16(std::span<f32_code const> codes) {
  std::vector<bf16_code> rounded_codes(codes.size());
  std::transform(codes.begin(), codes.end(), rounded_codes.begin(), [](f32_code c) { return convert<format::bf16>(c); });
  return rounded_codes;
}

}  // namespace stickybit
