// Which bits has a NaN result?
// Found: 7fffffff, 7fff; no sign, no payload. FP64: of the NaN operands b, else c, else a, made quiet; fff8000000000000 where none is NaN
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {"mma.bf16.f32", "wgmma.bf16.f32", "mma.f16.f32", "mma.tf32.f32", "wgmma.tf32.f32", "wgmma.e5m2.f32", "mma.e5m2.f32"}) {
    hardware_way const& way = way_of(unit);
    for (int kind = 0; kind < 4; ++kind) {
      unit_case x = case_of(way, {{0, 1.0, 1.0}}, 0);
      if (kind == 0) x.a[0] = way.a.infinity(true), x.b[0] = 0;
      if (kind == 1) x.a[0] = way.a.code(true, way.a.all_ones());
      if (kind == 2) x.a[0] = way.a.infinity(false), x.a[1] = way.a.infinity(true), x.b[1] = x.b[0];
      if (kind == 3) x.c = way.output == f16_format ? widen_f16(0xfd01) : way.output == f64_format ? 0xfff4000000000001 : 0xffa00001;
      constexpr std::array what{"-infinity * 0", "a NaN with a sign and payload in a", "infinity - infinity", "a signalling NaN with a sign and payload in c"};
      const std::uint64_t result = result_of(way, x), stated = 0x7fffffff;
      found.say(result == stated, std::string(unit) + ": " + what[std::size_t(kind)] + " gives " + hex_result(way, result));
    }
  }
  for (std::string_view unit : {"mma.f16.f16", "wgmma.f16.f16", "mma.e5m2.f16", "wgmma.e5m2.f16"}) {
    hardware_way const& way = way_of(unit);
    for (int kind = 0; kind < 4; ++kind) {
      unit_case x = case_of(way, {{0, 1.0, 1.0}}, 0);
      if (kind == 0) x.a[0] = way.a.infinity(true), x.b[0] = 0;
      if (kind == 1) x.a[0] = way.a.code(true, way.a.all_ones());
      if (kind == 2) x.a[0] = way.a.infinity(false), x.a[1] = way.a.infinity(true), x.b[1] = x.b[0];
      if (kind == 3) x.c = way.output == f16_format ? widen_f16(0xfd01) : way.output == f64_format ? 0xfff4000000000001 : 0xffa00001;
      constexpr std::array what{"-infinity * 0", "a NaN with a sign and payload in a", "infinity - infinity", "a signalling NaN with a sign and payload in c"};
      const std::uint64_t result = result_of(way, x), stated = 0x7fff;
      found.say(result == stated, std::string(unit) + ": " + what[std::size_t(kind)] + " gives " + hex_result(way, result));
    }
  }
  hardware_way const& f64 = way_of("mma.f64.f64");
  const auto ask_f64 = [&](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t stated, std::string const& what) {
    unit_case x = case_of(f64, {{0, 1.0, 1.0}}, 0);
    x.a[0] = a, x.b[0] = b, x.c = c;
    const std::uint64_t result = result_of(f64, x);
    found.say(result == stated, "mma.f64.f64: " + what + " gives " + hex_result(f64, result));
  };
  constexpr std::uint64_t one = 0x3ff0000000000000, infinity = 0x7ff0000000000000, nan_a = 0xfff400000000000a, nan_b = 0x7ff400000000000b, nan_c = 0xfff800000000000c;
  ask_f64(infinity, 0, one, 0xfff8000000000000, "infinity * 0");
  ask_f64(infinity, one, infinity ^ std::uint64_t{1} << 63, 0xfff8000000000000, "infinity - infinity");
  ask_f64(nan_a, one, one, 0xfffc00000000000a, "a = fff400000000000a");
  ask_f64(nan_a, one, nan_c, 0xfff800000000000c, "the same and c = fff800000000000c");
  ask_f64(nan_a, nan_b, nan_c, 0x7ffc00000000000b, "the same and b = 7ff400000000000b");
  ask_f64(infinity, 0, nan_c, 0xfff800000000000c, "infinity * 0, c = fff800000000000c");
  return found;
}

}  // namespace

extern const probe nan_pattern{"nan_pattern", "Which bits has a NaN result?", "7fffffff, 7fff; no sign, no payload. FP64: of the NaN operands b, else c, else a, made quiet; fff8000000000000 where none is NaN", ask};

}  // namespace stickybit::gpu
