#pragma once
#include "changed_units.hpp"
#include "unit_batch.hpp"

namespace stickybit::gpu {

/// Cases for a golden file: some of every generator, and for every changed rule some whose result changes with it.
struct golden_cases {
  std::vector<unit_case> one, two;  ///< of one instruction, of two
};

/// @param per_generator, per_rule  cases of each, at least; a rule that no candidate shows gets none
[[nodiscard]] inline golden_cases choose_golden_cases(machine_unit const& unit, std::uint64_t seed, std::size_t per_generator, std::size_t per_rule) {
  constexpr std::size_t candidates = 1024;
  const case_shape shape = shape_of(unit);
  const std::vector<changed_unit> changed = changed_units(unit);
  struct candidate {
    std::uint64_t shows = 0;  // bit r: the result changes with rule r
  };
  golden_cases chosen;
  for (int instructions : {1, 2}) {
    std::vector<std::size_t> generators;
    for (std::size_t g = 0; g < unit_generators.size(); ++g)
      if (unit_generators[g].instructions == instructions) generators.push_back(g);
    const auto made = [&](std::size_t i) { return make_unit_case(shape, generators[i % generators.size()], seed, i / generators.size()); };
    std::vector<candidate> all(generators.size() * candidates);
    parallel_ranges(all.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const unit_case x = made(i);
        const std::uint64_t result = emulated(unit, x);
        for (std::size_t r = 0; r < changed.size(); ++r)
          if (emulated(changed[r].unit, x) != result) all[i].shows |= std::uint64_t{1} << r;
      }
    });
    std::vector<std::size_t> shown(changed.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool wanted = i / generators.size() < per_generator;
      for (std::size_t r = 0; r < changed.size(); ++r) wanted = wanted || ((all[i].shows >> r & 1) != 0 && shown[r] < per_rule);
      if (!wanted) continue;
      for (std::size_t r = 0; r < changed.size(); ++r) shown[r] += all[i].shows >> r & 1;
      (instructions == 1 ? chosen.one : chosen.two).push_back(made(i));
    }
  }
  return chosen;
}

}  // namespace stickybit::gpu
