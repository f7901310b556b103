// Which bits has a NaN result?
// Found: 7fffffff, 7fff; no sign, no payload. FP64: 7fffffffffffffff
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
  for (std::string_view unit : {"mma.f64.f64"}) {
    hardware_way const& way = way_of(unit);
    for (int kind = 0; kind < 4; ++kind) {
      unit_case x = case_of(way, {{0, 1.0, 1.0}}, 0);
      if (kind == 0) x.a[0] = way.a.infinity(true), x.b[0] = 0;
      if (kind == 1) x.a[0] = way.a.code(true, way.a.all_ones());
      if (kind == 2) x.a[0] = way.a.infinity(false), x.a[1] = way.a.infinity(true), x.b[1] = x.b[0];
      if (kind == 3) x.c = way.output == f16_format ? widen_f16(0xfd01) : way.output == f64_format ? 0xfff4000000000001 : 0xffa00001;
      constexpr std::array what{"-infinity * 0", "a NaN with a sign and payload in a", "infinity - infinity", "a signalling NaN with a sign and payload in c"};
      const std::uint64_t result = result_of(way, x), stated = 0x7fffffffffffffff;
      found.say(result == stated, std::string(unit) + ": " + what[std::size_t(kind)] + " gives " + hex_result(way, result));
    }
  }
  return found;
}

}  // namespace

extern const probe nan_pattern{"nan_pattern", "Which bits has a NaN result?", "7fffffff, 7fff; no sign, no payload. FP64: 7fffffffffffffff", ask};

}  // namespace stickybit::gpu
