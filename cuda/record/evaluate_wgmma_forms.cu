#include "evaluate_tiles.cuh"

namespace stickybit::gpu {
namespace {

template <class D, class A, wgmma_form Form>
hardware_way way(std::string_view unit, std::string_view instruction) {
  using I = wgmma<D, A, A, Form>;
  return {unit, instruction, format_of_ptx<A>, format_of_ptx<A>, format_of_ptx<D>, I::k, 90, true, false, launch_wgmma<I>};
}

/// The probes find a form by the end of its name.
template <class D, class A, bool Transposable>
void add_forms(std::vector<hardware_way>& ways, std::string_view unit) {
  ways.push_back(way<D, A, wgmma_form{.negate_a = true}>(unit, "wgmma n8, A negated"));
  ways.push_back(way<D, A, wgmma_form{.negate_b = true}>(unit, "wgmma n8, B negated"));
  ways.push_back(way<D, A, wgmma_form{.negate_a = true, .negate_b = true}>(unit, "wgmma n8, A and B negated"));
  if constexpr (Transposable) {
    ways.push_back(way<D, A, wgmma_form{.transpose_b = true}>(unit, "wgmma n8, B transposed"));
    ways.push_back(way<D, A, wgmma_form{.a_shared = true, .transpose_a = true}>(unit, "wgmma n8, A in shared memory, transposed"));
    ways.push_back(way<D, A, wgmma_form{.a_shared = true, .transpose_a = true, .transpose_b = true}>(unit, "wgmma n8, A in shared memory, both transposed"));
  }
}

template <class D, class A, int... Eighths>
void add_widths(std::vector<hardware_way>& ways, std::string_view unit, std::integer_sequence<int, Eighths...>) {
  static constexpr std::array names{"wgmma n8",   "wgmma n16",  "wgmma n24",  "wgmma n32",  "wgmma n40",  "wgmma n48",  "wgmma n56",  "wgmma n64",
                                    "wgmma n72",  "wgmma n80",  "wgmma n88",  "wgmma n96",  "wgmma n104", "wgmma n112", "wgmma n120", "wgmma n128",
                                    "wgmma n136", "wgmma n144", "wgmma n152", "wgmma n160", "wgmma n168", "wgmma n176", "wgmma n184", "wgmma n192",
                                    "wgmma n200", "wgmma n208", "wgmma n216", "wgmma n224", "wgmma n232", "wgmma n240", "wgmma n248", "wgmma n256"};
  (ways.push_back(way<D, A, wgmma_form{.n = 8 * (Eighths + 1)}>(unit, names[Eighths])), ...);
}

}  // namespace

std::span<hardware_way const> wgmma_forms() {
  static const std::vector<hardware_way> ways = [] {
    std::vector<hardware_way> all;
    add_forms<ptx_f32, ptx_bf16, true>(all, "wgmma.bf16.f32");
    add_forms<ptx_f16, ptx_f16, true>(all, "wgmma.f16.f16");
    add_forms<ptx_f32, ptx_tf32, false>(all, "wgmma.tf32.f32");
    add_forms<ptx_f32, ptx_e5m2, false>(all, "wgmma.e5m2.f32");
    add_widths<ptx_f32, ptx_bf16>(all, "wgmma.bf16.f32", std::make_integer_sequence<int, 32>());
    add_widths<ptx_f32, ptx_e4m3>(all, "wgmma.e4m3.f32", std::make_integer_sequence<int, 32>());
    return all;
  }();
  return ways;
}

}  // namespace stickybit::gpu
