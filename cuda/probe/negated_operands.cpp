// Is a negated operand (imm-scale -1) the same as one with its sign flipped?
// Found: Yes, zeros, infinities and NaN too
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.f16.f16"), std::string_view("wgmma.tf32.f32"), std::string_view("wgmma.e5m2.f32")}) {
    hardware_way const& way = way_of(unit);
    const auto cases = random_cases(unit, {"narrow", "cancelling", "signed_zero", "special", "nan_kinds", "all_bits"}, 1 << 12);
    auto a = cases, b = cases;
    for (unit_case& x : a)
      for (std::size_t k = 0; k < std::size_t(x.size); ++k) x.a[k] ^= way.a.sign();
    for (unit_case& x : b)
      for (std::size_t k = 0; k < std::size_t(x.size); ++k) x.b[k] ^= way.b.sign();
    say_differing(found, true, std::string(unit) + ", A negated", results_of(way, a), results_of(way_of(unit, "n8, A negated"), cases));
    say_differing(found, true, std::string(unit) + ", B negated", results_of(way, b), results_of(way_of(unit, "n8, B negated"), cases));
    say_differing(found, true, std::string(unit) + ", both negated", results_of(way, cases), results_of(way_of(unit, "A and B negated"), cases));
    say_differing(found, false, std::string(unit) + ", A negated and A as it is", results_of(way, cases), results_of(way_of(unit, "n8, A negated"), cases));
  }
  return found;
}

}  // namespace

extern const probe negated_operands{"negated_operands", "Is a negated operand (imm-scale -1) the same as one with its sign flipped?", "Yes, zeros, infinities and NaN too", ask};

}  // namespace stickybit::gpu
