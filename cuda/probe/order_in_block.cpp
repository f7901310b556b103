// Does the order of the products within an instruction change a bit?
// Found: No in one block; yes in mma.sync with FP8 operands (two blocks) and with FP64
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

std::vector<unit_case> permuted(std::vector<unit_case> cases) {
  random_codes random(1, 0, 0);
  for (unit_case& x : cases)
    for (int k = x.size - 1; k > 0; --k) {
      const auto other = std::size_t(random.between(0, k));
      std::swap(x.a[std::size_t(k)], x.a[other]);
      std::swap(x.b[std::size_t(k)], x.b[other]);
    }
  return cases;
}

findings ask() {
  findings found;
  constexpr std::array units{std::pair{std::string_view("mma.bf16.f32"), true}, std::pair{std::string_view("mma.f16.f16"), true}, std::pair{std::string_view("mma.tf32.f32"), true}, std::pair{std::string_view("wgmma.bf16.f32"), true}, std::pair{std::string_view("wgmma.f16.f16"), true}, std::pair{std::string_view("wgmma.tf32.f32"), true}, std::pair{std::string_view("wgmma.e4m3.f32"), true}, std::pair{std::string_view("wgmma.e5m2.f16"), true}, std::pair{std::string_view("mma.e5m2.f32"), false}, std::pair{std::string_view("mma.f64.f64"), false}};
  for (auto [unit, equal] : units) {
    hardware_way const& way = way_of(unit);
    const auto cases = random_cases(unit, {"narrow", "cancelling", "quantum_edge", "cancel_depth", "special"}, 1 << 12);
    say_differing(found, equal, std::string(unit) + ", products permuted at random", results_of(way, cases), results_of(way, permuted(cases)));
  }
  return found;
}

}  // namespace

extern const probe order_in_block{"order_in_block", "Does the order of the products within an instruction change a bit?", "No in one block; yes in mma.sync with FP8 operands (two blocks) and with FP64", ask};

}  // namespace stickybit::gpu
