#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "support/catch.hpp"

namespace testing {

/// Counts cases and mismatches of one law over one domain and keeps the first mismatch in words: one CHECK for millions of cases.
class tally {
 public:
  explicit tally(std::string domain) : domain_(std::move(domain)) {}
  tally(std::string domain, std::uint64_t seed) : domain_(std::move(domain) + fmt::format(", seed {:#x}", seed)) {}

  /// describe() gives the failing case in words; it is called for the first mismatch only.
  template <class Describe>
  void expect(bool holds, Describe&& describe) {
    ++cases_;
    if (!holds && mismatches_++ == 0) first_ = describe();
  }
  /// Cases and mismatches that a loop has counted itself.
  template <class Describe>
  void add(std::uint64_t cases, std::uint64_t mismatches, Describe&& describe) {
    cases_ += cases;
    if (mismatches != 0 && mismatches_ == 0) first_ = describe();
    mismatches_ += mismatches;
  }

  [[nodiscard]] std::uint64_t cases() const noexcept { return cases_; }
  [[nodiscard]] std::uint64_t mismatches() const noexcept { return mismatches_; }

  /// Prints domain and counts; fails on any mismatch, and when there was no case at all.
  void check() const {
    const std::string line = fmt::format("{}: {} mismatches of {}", domain_, mismatches_, cases_);
    fmt::print("{}\n", line);
    INFO(line);
    INFO("first mismatch: " << first_);
    CHECK(mismatches_ == 0);
    CHECK(cases_ > 0);
  }

 private:
  std::string domain_, first_;
  std::uint64_t cases_ = 0, mismatches_ = 0;
};

}  // namespace testing
