// Inner products recorded on an H200, mma.sync and wgmma: the unit gives every bit, and a unit with any one rule changed does not.
#include <functional>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

struct recorded_products {
  std::vector<bf16_code> a, b;
  std::vector<f32_code> c, d;
};

recorded_products recorded(const char* name) {
  const tensor_file file = golden(name);
  return {read_operand<format::bf16>(file, "a"), read_operand<format::bf16>(file, "b"), file.require("c", dtype::f32).elements<f32_code>(),
          file.require("d", dtype::f32).elements<f32_code>()};
}

std::int64_t mismatches(machine_unit const& unit, recorded_products const& r) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < r.d.size(); ++i) {
    const auto row = [&](std::vector<bf16_code> const& m) { return std::span<bf16_code const>(m).subspan(16 * i, 16); };
    n += inner_product<format::bf16>(unit, row(r.a), row(r.b), r.c[i]) != r.d[i];
  }
  return n;
}

}  // namespace

TEST_CASE("block_fma on sm90: recorded inner products, and each changed rule differs from them", "[block_fma][golden]") {
  const std::vector<std::pair<const char*, std::function<void(machine_unit&)>>> changes{
      {"F = 24", [](machine_unit& u) { u.alignment_fraction_bits = 24; }},
      {"F = 26", [](machine_unit& u) { u.alignment_fraction_bits = 26; }},
      {"blocks of 8", [](machine_unit& u) { u.block_size = 8; }},
      {"clamp -132", [](machine_unit& u) { u.min_alignment_exponent = -132; }},
      {"clamp -134", [](machine_unit& u) { u.min_alignment_exponent = -134; }},
      {"clamp -126", [](machine_unit& u) { u.min_alignment_exponent = -126; }},
      {"to nearest even", [](machine_unit& u) { u.output_rounding = rounding::nearest_even; }},
      {"c added last", [](machine_unit& u) { u.accumulator = accumulator_place::added_last; }},
  };
  for (auto const& [name, unit_name] : {std::pair{"inner_products_mma.safetensors", "sm90.mma.bf16.f32"}, std::pair{"inner_products_wgmma.safetensors", "sm90.wgmma.bf16.f32"}}) {
    const recorded_products r = recorded(name);
    REQUIRE(r.d.size() == 2816);
    INFO(name);
    CHECK(mismatches(unit_named(unit_name), r) == 0);
    for (auto const& [what, change] : changes) {
      machine_unit changed = unit_named(unit_name);
      change(changed);
      INFO(what);
      CHECK(mismatches(changed, r) > 0);
    }
  }
}
