#include "units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace testing {

std::string in_words(block_case const& k, std::uint32_t got, std::uint32_t expected) {
  return fmt::format("a {:04x} b {:04x} c {:08x}: {:08x}, not {:08x}", fmt::join(k.a, ","), fmt::join(k.b, ","), k.c, got, expected);
}

}  // namespace testing
