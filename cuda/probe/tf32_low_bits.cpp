// What do the low 13 bits of a TF32 operand do?
// Found: Nothing: they are cut before anything else, so a NaN with a payload only there is infinity
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("mma.tf32.f32"), std::string_view("mma.tf32k4.f32"), std::string_view("wgmma.tf32.f32")}) {
    auto cases = random_cases(unit, {"narrow", "wide", "cancelling", "special", "signed_zero", "all_bits"}, 1 << 12);
    random_codes random(1, 0, 0);
    auto clean = cases;
    for (std::size_t i = 0; i < cases.size(); ++i)
      for (std::size_t k = 0; k < std::size_t(cases[i].size); ++k) {
        clean[i].a[k] &= ~tf32_format.padding_mask();
        clean[i].b[k] &= ~tf32_format.padding_mask();
        cases[i].a[k] |= random.bits() & tf32_format.padding_mask();
        cases[i].b[k] |= random.bits() & tf32_format.padding_mask();
      }
    say_differing(found, true, std::string(unit) + ", random low bits and none", results_of(way_of(unit), cases), results_of(way_of(unit), clean));
    unit_case x = case_of(way_of(unit), {{0, 1.0, 1.0}}, 0);
    x.a[0] = 0x7f800001;
    const std::uint64_t result = result_of(way_of(unit), x);
    found.say(result == 0x7f800000, std::string(unit) + ": 7f800001 * 1 gives " + hex_code(result, 4));
  }
  return found;
}

}  // namespace

extern const probe tf32_low_bits{"tf32_low_bits", "What do the low 13 bits of a TF32 operand do?", "Nothing: they are cut before anything else, so a NaN with a payload only there is infinity", ask};

}  // namespace stickybit::gpu
