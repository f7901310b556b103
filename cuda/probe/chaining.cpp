// Is an instruction after another the same as one with the first result for c? Is k16 two k8?
// Found: The first: yes, nothing is carried over but the result. The second: no, one block of 16
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("mma.bf16.f32"), std::string_view("mma.f16.f16"), std::string_view("mma.tf32.f32"), std::string_view("mma.e4m3.f32"), std::string_view("mma.f64.f64"), std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.f16.f16"), std::string_view("wgmma.e4m3.f32"), std::string_view("wgmma.e5m2.f16")}) {
    hardware_way const& way = way_of(unit);
    const auto cases = random_cases(unit, {"chained_2"}, 1 << 14);
    std::vector<unit_case> first = cases, second = cases;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      first[i].size = second[i].size = way.k;
      for (std::size_t k = 0; k < std::size_t(way.k); ++k) second[i].a[k] = cases[i].a[k + std::size_t(way.k)], second[i].b[k] = cases[i].b[k + std::size_t(way.k)];
    }
    const auto between = results_of(way, first);
    for (std::size_t i = 0; i < cases.size(); ++i) second[i].c = way.output == f16_format ? widen_f16(between[i]) : between[i];
    say_differing(found, true, std::string(unit) + ", two in a row and one after the other with c from memory", results_of(way, cases), results_of(way, second));
  }
  for (auto [k16, k8] : {std::pair{"mma.bf16.f32", "mma.bf16k8.f32"}, std::pair{"mma.f16.f32", "mma.f16k8.f32"}, std::pair{"mma.f16.f16", "mma.f16k8.f16"}, std::pair{"mma.tf32.f32", "mma.tf32k4.f32"}}) {
    const auto cases = random_cases(k16, {"narrow", "cancelling"}, 1 << 13);
    say_differing(found, false, std::string(k16) + " and two of half the length", results_of(way_of(k16), cases), results_of(way_of(k8), cases));
  }
  return found;
}

}  // namespace

extern const probe chaining{"chaining", "Is an instruction after another the same as one with the first result for c? Is k16 two k8?", "The first: yes, nothing is carried over but the result. The second: no, one block of 16", ask};

}  // namespace stickybit::gpu
