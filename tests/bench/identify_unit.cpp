// Finding a unit's rules from its answers, beside computing as many inner products and nothing else.
#include <fmt/format.h>

#include "inputs.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::bench {
namespace {

comparison of_unit(std::string_view name) {
  machine_unit const& unit = unit_named(name);
  const auto identify = [&unit] { return identify_unit(*emulated_unit(unit)); };
  const unit_identification found = identify();
  const auto asked = double(found.probes + found.verified);
  const auto k = std::size_t(unit.instruction_k);
  return {fmt::format("identify unit: {}, {} probes and {} of the final check", name, found.probes, found.verified), "inner product", asked,
          [identify] { witness = std::uint32_t(identify().probes); },
          {"only computing them", asked, [&unit, asked, k] {
             const unit_case x{std::vector<std::uint64_t>(k, 0x3c), std::vector<std::uint64_t>(k, 0x38), 0x3f800000};
             for (int i = 0; i < int(asked); ++i) witness = std::uint32_t(result_of(unit, x));
           }},
          {}};
}

}  // namespace

void add_identification(std::vector<comparison>& list) {
  for (std::string_view name : {"sm90.mma.bf16.f32", "sm80.mma.f16.f32", "sm90.mma.e4m3.f32"}) list.push_back(of_unit(name));
}

}  // namespace stickybit::bench
