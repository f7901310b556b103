// Does mma.sync m16n8k16 with FP8 operands exist, and in which order does it add?
// Found: It exists: two FP16 blocks of 8 from 0, k mod 4 = 0 or 1, then k mod 4 = 2 or 3; c is added last
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view name : {std::string_view("mma.e4m3k16.f32"), std::string_view("mma.e5m2k16.f32"), std::string_view("mma.e4m3k16.f16"), std::string_view("mma.e5m2k16.f16")}) {
    hardware_way const& way = way_of(name);
    std::string long_name = "sm90." + std::string(name);
    long_name.erase(long_name.find("k16"), 3);
    const auto cases = random_cases(name, {"narrow", "wide", "cancelling", "all_bits", "quantum_edge", "c_sweep", "subnormal"}, 1 << 13);
    for (auto [what, block, order, stated] : {std::tuple{"one block of 16", 16, product_order::ascending, false}, std::tuple{"two blocks of 8", 8, product_order::ascending, false},
                                              std::tuple{"two blocks of 8, pairs", 8, product_order::pairs, true}}) {
      machine_unit unit = *find_unit(long_name);
      unit.instruction_k = 16;
      unit.block_size = block;
      unit.order = order;
      const std::size_t n = mismatches_with(way, unit, cases);
      found.say((n == 0) == stated, std::string(name) + ", " + what + ", c last: " + std::to_string(n) + " of " + std::to_string(cases.size()) + " results differ");
    }
  }
  return found;
}

}  // namespace

extern const probe fp8_k16{"fp8_k16", "Does mma.sync m16n8k16 with FP8 operands exist, and in which order does it add?", "It exists: two FP16 blocks of 8 from 0, k mod 4 = 0 or 1, then k mod 4 = 2 or 3; c is added last", ask};

}  // namespace stickybit::gpu
