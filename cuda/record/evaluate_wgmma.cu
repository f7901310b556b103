#include "evaluate_tiles.cuh"

namespace stickybit::gpu {
namespace {

template <class D, class A, class B, wgmma_form Form = wgmma_form{}>
constexpr hardware_way way(std::string_view unit, std::string_view instruction) {
  using I = wgmma<D, A, B, Form>;
  return {unit, instruction, format_of_ptx<A>, format_of_ptx<B>, format_of_ptx<D>, I::k, 90, true, !Form.a_shared, launch_wgmma<I>};
}

constexpr wgmma_form shared{.a_shared = true};

constexpr std::array ways{
    way<ptx_f32, ptx_bf16, ptx_bf16>("wgmma.bf16.f32", "wgmma m64n8k16_f32_bf16_bf16_f32, A in registers"),
    way<ptx_f32, ptx_bf16, ptx_bf16, shared>("wgmma.bf16.f32", "wgmma m64n8k16_f32_bf16_bf16_f32, A in shared memory"),
    way<ptx_f32, ptx_f16, ptx_f16>("wgmma.f16.f32", "wgmma m64n8k16_f32_f16_f16_f32, A in registers"),
    way<ptx_f32, ptx_f16, ptx_f16, shared>("wgmma.f16.f32", "wgmma m64n8k16_f32_f16_f16_f32, A in shared memory"),
    way<ptx_f16, ptx_f16, ptx_f16>("wgmma.f16.f16", "wgmma m64n8k16_f16_f16_f16_f16, A in registers"),
    way<ptx_f16, ptx_f16, ptx_f16, shared>("wgmma.f16.f16", "wgmma m64n8k16_f16_f16_f16_f16, A in shared memory"),
    way<ptx_f32, ptx_tf32, ptx_tf32>("wgmma.tf32.f32", "wgmma m64n8k8_f32_tf32_tf32_f32, A in registers"),
    way<ptx_f32, ptx_tf32, ptx_tf32, shared>("wgmma.tf32.f32", "wgmma m64n8k8_f32_tf32_tf32_f32, A in shared memory"),
    way<ptx_f32, ptx_e4m3, ptx_e4m3>("wgmma.e4m3.f32", "wgmma m64n8k32_f32_e4m3_e4m3_f32, A in registers"),
    way<ptx_f32, ptx_e4m3, ptx_e4m3, shared>("wgmma.e4m3.f32", "wgmma m64n8k32_f32_e4m3_e4m3_f32, A in shared memory"),
    way<ptx_f32, ptx_e5m2, ptx_e5m2>("wgmma.e5m2.f32", "wgmma m64n8k32_f32_e5m2_e5m2_f32, A in registers"),
    way<ptx_f32, ptx_e4m3, ptx_e5m2>("wgmma.e4m3xe5m2.f32", "wgmma m64n8k32_f32_e4m3_e5m2_f32, A in registers"),
    way<ptx_f32, ptx_e5m2, ptx_e4m3>("wgmma.e5m2xe4m3.f32", "wgmma m64n8k32_f32_e5m2_e4m3_f32, A in registers"),
    way<ptx_f16, ptx_e4m3, ptx_e4m3>("wgmma.e4m3.f16", "wgmma m64n8k32_f16_e4m3_e4m3_f16, A in registers"),
    way<ptx_f16, ptx_e5m2, ptx_e5m2>("wgmma.e5m2.f16", "wgmma m64n8k32_f16_e5m2_e5m2_f16, A in registers"),
    way<ptx_f16, ptx_e4m3, ptx_e5m2>("wgmma.e4m3xe5m2.f16", "wgmma m64n8k32_f16_e4m3_e5m2_f16, A in registers"),
    way<ptx_f16, ptx_e5m2, ptx_e4m3>("wgmma.e5m2xe4m3.f16", "wgmma m64n8k32_f16_e5m2_e4m3_f16, A in registers"),
};

}  // namespace

std::span<hardware_way const> wgmma_ways() { return ways; }

}  // namespace stickybit::gpu
