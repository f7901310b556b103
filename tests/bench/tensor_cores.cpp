// The fast form of block_fma beside its definition and beside OpenBLAS: the same shape, one core.
#include <fmt/format.h>
#include <hwy/targets.h>
#include <omp.h>

#include "inputs.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/machine.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*, const int*, const float*, float*,
            const int*);
void openblas_set_num_threads(int);
}

namespace stickybit::bench {
namespace {

constexpr int size = 512, few_rows = 8;
constexpr double macs = double(size) * size * size;

template <format In>
std::function<void()> product(machine_unit const& unit, std::int64_t rows, engine how) {
  static const auto a = normal_codes<In>(std::size_t(size * size), 1), b = normal_codes<In>(std::size_t(size * size), 2);
  return [&unit, rows, how] {
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    witness = gemm(unit, gemm_problem_of<In>{rows, size, size, std::span(a).first(std::size_t(rows * size)), b, {}}, 1, how).back().to_bits();
    omp_set_num_threads(threads);
  };
}

void sgemm() {
  static const auto a = normals(std::size_t(size * size), 1), b = normals(std::size_t(size * size), 2);
  static std::vector<float> c(std::size_t(size * size));
  const float one = 1, zero = 0;
  openblas_set_num_threads(1);
  sgemm_("T", "N", &size, &size, &size, &one, b.data(), &size, a.data(), &size, &zero, c.data(), &size);
  witness = code_of(c.back()).to_bits();
}

template <format In>
comparison of_unit(std::string_view name) {
  machine_unit const& unit = unit_named(name);
  return {fmt::format("block_fma: {}, {} x {} x {}, one core", name, size, size, size), "MAC", macs, product<In>(unit, size, engine::fast),
          {"the definition", macs * few_rows / size, product<In>(unit, few_rows, engine::definition)}, {"OpenBLAS sgemm, one thread", macs, sgemm}};
}

/// sm90 on the vectors of one target of Highway, which the machine has beside its best one.
comparison on_target(std::int64_t target) {
  comparison c = of_unit<format::bf16>("sm90.wgmma.bf16.f32");
  c.name = fmt::format("block_fma: sm90 BF16 on {}, {} x {} x {}, one core", hwy::TargetName(target), size, size, size);
  c.run = [target, run = c.run] {
    hwy::SetSupportedTargetsForTest(target);
    run();
    hwy::SetSupportedTargetsForTest(0);
  };
  return c;
}

/// A product too small for any vector to be full.
comparison small(std::int64_t m, std::int64_t n, std::int64_t k) {
  static const auto a = normal_codes<format::bf16>(64, 1), b = normal_codes<format::bf16>(256, 2);
  const auto run = [=](engine how) {
    return [=] {
      const int threads = omp_get_max_threads();
      omp_set_num_threads(1);
      const gemm_problem p{m, n, k, std::span(a).first(std::size_t(m * k)), std::span(b).first(std::size_t(n * k)), {}};
      for (int i = 0; i < 1000; ++i) witness = gemm(unit_named("sm90.wgmma.bf16.f32"), p, 1, how).back().to_bits();
      omp_set_num_threads(threads);
    };
  };
  return {fmt::format("gemm: sm90 BF16, {} x {} x {}", m, n, k), "call", 1000, run(engine::fast), {"the definition", 1000, run(engine::definition)}, {}};
}

}  // namespace

void add_tensor_cores(std::vector<comparison>& list) {
  for (std::string_view name : {"sm90.wgmma.bf16.f32", "sm80.mma.bf16.f32", "sm100.mma.bf16.f32"}) list.push_back(of_unit<format::bf16>(name));
  for (std::string_view name : {"sm90.wgmma.f16.f32", "sm80.mma.f16.f32", "sm90.wgmma.f16.f16", "sm80.mma.f16.f16"}) list.push_back(of_unit<format::f16>(name));
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (std::int64_t target : targets)
    if (target != targets.front() && target != HWY_SCALAR) list.push_back(on_target(target));
  list.push_back(small(1, 1, 16));
  list.push_back(small(3, 5, 20));
}

}  // namespace stickybit::bench
