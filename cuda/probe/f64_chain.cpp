// Is FP64 a chain of IEEE FMAs, and in which order?
// Found: Yes: ascending k, one FMA a product, in every shape
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

/// Other orders, where the hardware must differ: descending, even k before odd, and products rounded before they are added.
void say_orders(findings& found, hardware_way const& way, std::vector<unit_case> const& cases) {
  const machine_unit unit = *find_unit("sm90.mma.f64.f64");
  const auto results = results_of(way, cases);
  for (int order = 0; order < 3; ++order) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      unit_case x = cases[i];
      for (int k = 0; k < x.size; ++k) {
        const int from = order == 0 ? x.size - 1 - k : order == 1 ? (2 * k < x.size ? 2 * k : 2 * k - x.size + 1) : k / 4 * 4 + 3 - k % 4;
        x.a[std::size_t(k)] = cases[i].a[std::size_t(from)];
        x.b[std::size_t(k)] = cases[i].b[std::size_t(from)];
      }
      n += emulated(unit, x) != results[i];
    }
    constexpr std::array names{"descending", "even k, then odd", "descending in fours"};
    found.say(n != 0, std::string("  ") + names[std::size_t(order)] + ": " + std::to_string(n) + " of " + std::to_string(cases.size()) + " results differ");
  }
}

findings ask() {
  findings found;
  const auto cases = random_cases("mma.f64.f64", {"narrow", "wide", "cancelling", "subnormal", "signed_zero", "all_bits", "overflow", "carry", "special", "nan_kinds"}, 1 << 12);
  const machine_unit unit = *find_unit("sm90.mma.f64.f64");
  for (char const* form : {"m16n8k16_f64_f64_f64_f64", "m16n8k8_f64_f64_f64_f64", "m16n8k4_f64_f64_f64_f64", "m8n8k4_f64_f64_f64_f64"}) {
    hardware_way const& way = way_of("mma.f64.f64", form);
    const std::size_t n = mismatches_with(way, unit, cases);
    found.say(n == 0, std::string(form) + ", ascending: " + std::to_string(n) + " of " + std::to_string(cases.size()) + " results differ");
    say_orders(found, way, cases);
  }
  return found;
}

}  // namespace

extern const probe f64_chain{"f64_chain", "Is FP64 a chain of IEEE FMAs, and in which order?", "Yes: ascending k, one FMA a product, in every shape", ask};

}  // namespace stickybit::gpu
