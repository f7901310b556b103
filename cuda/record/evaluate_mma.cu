#include "evaluate_tiles.cuh"

namespace stickybit::gpu {
namespace {

template <class D, class A, class B, int Words, int Least = 80>
constexpr hardware_way way(std::string_view unit, std::string_view instruction) {
  using I = mma_sync<D, A, B, Words>;
  return {unit, instruction, format_of_ptx<A>, format_of_ptx<B>, format_of_ptx<D>, I::k, Least, false, true, launch_mma<I, Least>};
}

template <class I, int Least>
constexpr hardware_way f64_way(std::string_view instruction, bool main) {
  return {"mma.f64.f64", instruction, f64_format, f64_format, f64_format, I::k, Least, false, main, launch_mma<I, Least>};
}

constexpr std::array half_and_wider{
    way<ptx_f32, ptx_bf16, ptx_bf16, 8>("mma.bf16.f32", "mma.sync m16n8k16_f32_bf16_bf16_f32"),
    way<ptx_f32, ptx_bf16, ptx_bf16, 4>("mma.bf16k8.f32", "mma.sync m16n8k8_f32_bf16_bf16_f32"),
    way<ptx_f32, ptx_f16, ptx_f16, 8>("mma.f16.f32", "mma.sync m16n8k16_f32_f16_f16_f32"),
    way<ptx_f32, ptx_f16, ptx_f16, 4>("mma.f16k8.f32", "mma.sync m16n8k8_f32_f16_f16_f32"),
    way<ptx_f16, ptx_f16, ptx_f16, 8>("mma.f16.f16", "mma.sync m16n8k16_f16_f16_f16_f16"),
    way<ptx_f16, ptx_f16, ptx_f16, 4>("mma.f16k8.f16", "mma.sync m16n8k8_f16_f16_f16_f16"),
    way<ptx_f32, ptx_tf32, ptx_tf32, 8>("mma.tf32.f32", "mma.sync m16n8k8_f32_tf32_tf32_f32"),
    way<ptx_f32, ptx_tf32, ptx_tf32, 4>("mma.tf32k4.f32", "mma.sync m16n8k4_f32_tf32_tf32_f32"),
    f64_way<m16n8k16_f64_f64_f64_f64, 90>("mma.sync m16n8k16_f64_f64_f64_f64", true),
    f64_way<m16n8k8_f64_f64_f64_f64, 90>("mma.sync m16n8k8_f64_f64_f64_f64", false),
    f64_way<m16n8k4_f64_f64_f64_f64, 90>("mma.sync m16n8k4_f64_f64_f64_f64", false),
    f64_way<m8n8k4_f64_f64_f64_f64, 80>("mma.sync m8n8k4_f64_f64_f64_f64", false),
};

template <class D, class A, class B>
constexpr hardware_way fp8_way(std::string_view unit, std::string_view instruction) {
  return way<D, A, B, 8, 89>(unit, instruction);
}

constexpr std::array fp8{
    fp8_way<ptx_f32, ptx_e4m3, ptx_e4m3>("mma.e4m3.f32", "mma.sync m16n8k32_f32_e4m3_e4m3_f32"),
    fp8_way<ptx_f32, ptx_e5m2, ptx_e5m2>("mma.e5m2.f32", "mma.sync m16n8k32_f32_e5m2_e5m2_f32"),
    fp8_way<ptx_f32, ptx_e4m3, ptx_e5m2>("mma.e4m3xe5m2.f32", "mma.sync m16n8k32_f32_e4m3_e5m2_f32"),
    fp8_way<ptx_f32, ptx_e5m2, ptx_e4m3>("mma.e5m2xe4m3.f32", "mma.sync m16n8k32_f32_e5m2_e4m3_f32"),
    fp8_way<ptx_f16, ptx_e4m3, ptx_e4m3>("mma.e4m3.f16", "mma.sync m16n8k32_f16_e4m3_e4m3_f16"),
    fp8_way<ptx_f16, ptx_e5m2, ptx_e5m2>("mma.e5m2.f16", "mma.sync m16n8k32_f16_e5m2_e5m2_f16"),
    fp8_way<ptx_f16, ptx_e4m3, ptx_e5m2>("mma.e4m3xe5m2.f16", "mma.sync m16n8k32_f16_e4m3_e5m2_f16"),
    fp8_way<ptx_f16, ptx_e5m2, ptx_e4m3>("mma.e5m2xe4m3.f16", "mma.sync m16n8k32_f16_e5m2_e4m3_f16"),
    way<ptx_f32, ptx_e4m3, ptx_e4m3, 4, 89>("mma.e4m3k16.f32", "mma.sync m16n8k16_f32_e4m3_e4m3_f32"),
    way<ptx_f32, ptx_e5m2, ptx_e5m2, 4, 89>("mma.e5m2k16.f32", "mma.sync m16n8k16_f32_e5m2_e5m2_f32"),
    way<ptx_f16, ptx_e4m3, ptx_e4m3, 4, 89>("mma.e4m3k16.f16", "mma.sync m16n8k16_f16_e4m3_e4m3_f16"),
    way<ptx_f16, ptx_e5m2, ptx_e5m2, 4, 89>("mma.e5m2k16.f16", "mma.sync m16n8k16_f16_e5m2_e5m2_f16"),
};

}  // namespace

std::span<hardware_way const> mma_ways() { return half_and_wider; }
std::span<hardware_way const> mma_fp8_ways() { return fp8; }

std::vector<std::uint64_t> hardware_way::results(packed_cases const& cases, call_options options) const {
  const std::size_t padded = (cases.count + cases_per_tile - 1) / cases_per_tile * cases_per_tile;
  std::vector<std::uint64_t> results(cases.count);
  if (padded == 0) return results;
  device_array<std::byte> a(padded * std::size_t(cases.row_bytes)), b(padded * std::size_t(cases.row_bytes));
  device_array<std::uint64_t> c(padded), d(padded);
  // A tile that is not full is filled with whatever was there; all ones stay everywhere that nothing is written.
  check(cudaMemset(d.data(), 0xff, padded * sizeof(std::uint64_t)), "cudaMemset");
  a.upload(cases.a);
  b.upload(cases.b);
  c.upload(cases.c);
  launch({a.data(), b.data(), c.data(), d.data(), cases.count, cases.row_bytes}, options);
  finish("inner products");
  d.download(results);
  return results;
}

std::vector<hardware_way> hardware_ways() {
  std::vector<hardware_way> all;
  for (auto part : {mma_ways(), mma_fp8_ways(), wgmma_ways(), wgmma_forms()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace stickybit::gpu
