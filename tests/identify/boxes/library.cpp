// A shared library as `stickybit identify unit --library` takes it.
#include "box.hpp"
#include "stickybit/identify/unit_probe.h"

namespace {

int evaluate(void*, std::size_t count, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* c, std::uint64_t* d) {
  if (boxes::chosen() == "refuse") return 3;
  for (std::size_t i = 0; i < count; ++i) d[i] = boxes::inner_product(boxes::chosen(), a + i * boxes::k_count, b + i * boxes::k_count, c[i]);
  return 0;
}

}  // namespace

extern "C" const stickybit_unit* stickybit_unit_under_test(void) {
  static const stickybit_unit unit{STICKYBIT_UNIT_VERSION, boxes::k_count, "bf16", "bf16", "f32", "f32", nullptr, evaluate};
  return &unit;
}
