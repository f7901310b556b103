// Is c ignored where scale-d is 0, even a NaN?
// Found: Yes: the result is that of c = +0
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.f16.f16"), std::string_view("wgmma.tf32.f32"), std::string_view("wgmma.e4m3.f32"), std::string_view("wgmma.e5m2.f16")}) {
    hardware_way const& way = way_of(unit);
    auto cases = random_cases(unit, {"narrow", "cancelling", "signed_zero", "clamp"}, 1 << 12);
    for (unit_case& x : cases) x.c = 0;
    const auto zero = results_of(way, cases);
    random_codes random(1, 0, 0);
    for (std::size_t i = 0; i < cases.size(); ++i) cases[i].c = i % 2 == 0 ? 0x7fc00000 : i % 4 == 1 ? 0xff800000 : widen_f16(random.bits() & 0xffff);
    say_differing(found, true, std::string(unit) + ", c = +0 added, and c = NaN, infinity, any not added", zero, results_of(way, cases, {.add_d = false}));
    say_differing(found, false, std::string(unit) + ", the same c added", zero, results_of(way, cases));
  }
  return found;
}

}  // namespace

extern const probe scale_d_zero{"scale_d_zero", "Is c ignored where scale-d is 0, even a NaN?", "Yes: the result is that of c = +0", ask};

}  // namespace stickybit::gpu
