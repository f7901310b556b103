#pragma once
#include <cstdint>
#include <string_view>

namespace stickybit {

/// How a fact about a machine or a kernel is known. Only what is measured or has vectors is called bit-exact.
enum class evidence : std::uint8_t {
  measured,  ///< our runs on the named GPU, recorded with counts and seed
  vectors,   ///< others' hardware vectors, named
  reported,  ///< others' models or papers
  source,    ///< read from source or machine code, not run
  assumed,
};

[[nodiscard]] constexpr std::string_view name_of(evidence e) noexcept {
  switch (e) {
    case evidence::measured: return "measured";
    case evidence::vectors: return "vectors";
    case evidence::reported: return "reported";
    case evidence::source: return "source";
    case evidence::assumed: return "assumed";
  }
  return {};
}

/// One rule of a machine or a schedule, in words, with how it is known.
struct fact {
  std::string_view rule;
  evidence mark;
  std::string_view checked_against;
};

}  // namespace stickybit
