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

/// Operands of any unit as raw codes: normal numbers, scales about 1.
struct raw_operands {
  std::vector<std::uint32_t> a, b;
  std::vector<std::uint8_t> scale_a, scale_b;
};
template <format F>
std::vector<std::uint32_t> raw_normals(std::uint64_t seed) {
  std::vector<std::uint32_t> bits;
  for (code<F> c : normal_codes<F>(std::size_t(size * size), seed)) bits.push_back(c.to_bits());
  return bits;
}
std::vector<std::uint32_t> raw_normals(format f, std::uint64_t seed) {
  switch (f) {
    case format::bf16: return raw_normals<format::bf16>(seed);
    case format::f16: return raw_normals<format::f16>(seed);
    case format::tf32: return raw_normals<format::tf32>(seed);
    case format::e5m2: return raw_normals<format::e5m2>(seed);
    case format::e2m1: return raw_normals<format::e2m1>(seed);
    default: return raw_normals<format::e4m3fn>(seed);
  }
}
raw_operands operands_of(machine_unit const& u) {
  raw_operands o{raw_normals(u.input, 1), raw_normals(u.input_b, 2), {}, {}};
  const std::size_t scales = u.scale_block == 0 ? 0 : std::size_t(size) * std::size_t(size) / std::size_t(u.scale_block);
  for (std::size_t i = 0; i < scales; ++i) o.scale_a.push_back(std::uint8_t((u.scale == format::e8m0 ? 127 : 0x38) + int(i * 7 % 5) - 2));
  o.scale_b = o.scale_a;
  return o;
}

/// A unit of any kind: the fast form against the definition, and against the BF16 unit on the same shape in the same run.
comparison of_any_unit(std::string_view name) {
  machine_unit const& unit = unit_named(name);
  const auto run = [&unit, o = operands_of(unit)](std::int64_t rows, engine how) {
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const std::span a = std::span(o.a).first(std::size_t(rows * size));
    const std::span scale_a = std::span(o.scale_a).first(o.scale_a.size() / size * std::size_t(rows));
    witness = std::uint32_t(gemm_bits(unit, {rows, size, size, a, o.b, {}, scale_a, o.scale_b}, 1, how).back());
    omp_set_num_threads(threads);
  };
  return {fmt::format("block_fma: {}, {} x {} x {}, one core", name, size, size, size), "MAC", macs, [run] { run(size, engine::fast); },
          {"the definition", macs * few_rows / size, [run] { run(few_rows, engine::definition); }},
          {"sm90.wgmma.bf16.f32, the same shape", macs, product<format::bf16>(unit_named("sm90.wgmma.bf16.f32"), size, engine::fast)}};
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
  for (std::string_view name : {"sm90.wgmma.tf32.f32", "sm90.wgmma.e4m3.f32", "sm90.wgmma.e4m3xe5m2.f16", "sm89.mma.e4m3.f32", "sm90.mma.e4m3.f32", "sm90.mma.e4m3.f16", "sm100.tcgen05.e4m3.f32",
                                "sm100.tcgen05.mxe4m3.f32", "sm100.tcgen05.mxf4.f32", "sm100.tcgen05.nvf4.f32", "cdna2.mfma.bf16.f32", "cdna3.mfma.bf16.f32"})
    list.push_back(of_any_unit(name));
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (std::int64_t target : targets)
    if (target != targets.front() && target != HWY_SCALAR) list.push_back(on_target(target));
  list.push_back(small(1, 1, 16));
  list.push_back(small(3, 5, 20));
}

}  // namespace stickybit::bench
