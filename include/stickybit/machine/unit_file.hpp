#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/machine/unit.hpp"

// A unit as a JSON file, for one that is not in emulator/machine/. unit_named("@path") reads such a file too.

namespace stickybit {

/// A unit's file that cannot be read; what() says which member, and what was expected.
class unit_file_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// A unit with what its views point to. A copy's views still point into the original: set them again.
struct owned_unit {
  std::string name, instruction;
  std::vector<std::uint8_t> permutation;
  machine_unit unit;
};

/// The format with that name in traits_of().
[[nodiscard]] std::optional<format> format_named(std::string_view name) noexcept;

/// @param path  for errors only.  @throws unit_file_error
[[nodiscard]] std::shared_ptr<owned_unit const> parse_unit(std::string_view json_text, std::string const& path);

/// The unit of a file, read once a program and kept to its end; its name is "@path".  @throws unit_file_error
[[nodiscard]] machine_unit const& unit_from_file(std::string const& path);

/// The file's text: every number, and each rule that is not the usual one.  @pre no scales, not FP64
[[nodiscard]] std::string unit_json(machine_unit const& unit, std::string_view name);

}  // namespace stickybit
