// Does it matter how operands lie in shared memory (tnspA, tnspB)?
// Found: No
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.f16.f16")}) {
    const auto cases = random_cases(unit, {"narrow", "cancelling", "signed_zero", "special", "all_bits", "quantum_edge"}, 1 << 12);
    const auto plain = results_of(way_of(unit), cases);
    for (char const* form : {"B transposed", "A in shared memory, transposed", "both transposed"})
      say_differing(found, true, std::string(unit) + ", " + form, plain, results_of(way_of(unit, form), cases));
  }
  return found;
}

}  // namespace

extern const probe transposed_operands{"transposed_operands", "Does it matter how operands lie in shared memory (tnspA, tnspB)?", "No", ask};

}  // namespace stickybit::gpu
