#pragma once
#include <string>
#include <vector>

#include "stickybit/machine/machine.hpp"

namespace stickybit::cli {

/// Units of a machine that follow each other and differ in the formats of A and B alone.
struct unit_family {
  std::string name;  ///< sm90.wgmma.{e4m3,e5m2}.f32
  machine_unit const* first;
  std::size_t count;
};
[[nodiscard]] std::vector<unit_family> families_of(machine const& m);

/// What the unit does with a block, in words: "32 products and c cut at 2^(E-13), E at least -133".
[[nodiscard]] std::string arithmetic_words(machine_unit const& u);
/// Of how many blocks an instruction is made, in which order, and where c comes in, or nothing.
[[nodiscard]] std::string instruction_words(machine_unit const& u);
/// "FP32, cut toward zero to 13 fraction bits".
[[nodiscard]] std::string result_words(machine_unit const& u);

/// docs/models.md.
[[nodiscard]] std::string models_markdown();

}  // namespace stickybit::cli
