#include <fmt/format.h>

#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/identify/unit_probe.hpp"
#include "stickybit/rounding/convert.hpp"

namespace stickybit {
namespace {

class emulated final : public unit_under_test {
 public:
  explicit emulated(machine_unit const& unit) : unit_(unit) {}
  [[nodiscard]] unit_formats formats() const override { return formats_of(unit_); }
  [[nodiscard]] std::vector<std::uint64_t> evaluate(std::span<unit_case const> cases) override { return results_of(unit_, cases); }

 private:
  machine_unit unit_;
};

}  // namespace

unit_formats formats_of(machine_unit const& unit) noexcept {
  const format c = unit.output == format::f64 ? format::f64 : format::f32;
  return {unit.input, unit.input_b, c, unit.output, unit.instruction_k};
}

std::uint64_t to_f16_bits(std::uint64_t f32_bits) noexcept {
  const f32_code x = f32_code::from_bits(std::uint32_t(f32_bits));
  if (x.is_nan()) return (f32_bits >> 16 & 0x8000) | 0x7c00 | std::max<std::uint64_t>(f32_bits >> 13 & 0x3ff, 1);
  return convert<format::f16>(x).to_bits();
}

std::uint64_t from_f16_bits(std::uint64_t f16_bits) noexcept {
  const f16_code x = f16_code::from_bits(std::uint16_t(f16_bits));
  if (!x.is_nan()) return convert<format::f32>(x).to_bits();
  const std::uint64_t fraction = f16_bits & 0x3ff, below = fraction == 0x3ff ? 0x1fff : 0;
  return (f16_bits & 0x8000) << 16 | 0x7f800000 | fraction << 13 | below;
}

std::uint64_t result_of(machine_unit const& unit, unit_case const& x) { return evaluate(unit, {x.a, x.b, {}, {}, x.c}); }

std::vector<std::uint64_t> results_of(machine_unit const& unit, std::span<unit_case const> cases) {
  std::vector<std::uint64_t> results;
  results.reserve(cases.size());
  for (unit_case const& x : cases) results.push_back(result_of(unit, x));
  return results;
}

std::unique_ptr<unit_under_test> emulated_unit(machine_unit const& unit) {
  if (unit.is_scaled() || unit.arithmetic == block_arithmetic::grouped_sum) throw std::invalid_argument(fmt::format("{}: takes scales: expected a unit without them", unit.name));
  return std::make_unique<emulated>(unit);
}

}  // namespace stickybit
