// A unit's rules from its answers alone: every unit of the machines, and what is no unit of any.
#include "stickybit/identify/unit_probe.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>

#include "identify/unit_cases.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

bool takes_narrow(machine_unit const& u) {
  const auto narrow = [](format f) { return f == format::e2m1 || f == format::e3m2 || f == format::e2m3; };
  return narrow(u.input) || narrow(u.input_b);
}

std::int64_t differences(machine_unit const& x, machine_unit const& y, int count) {
  detail::case_maker maker(formats_of(x), 77);
  std::int64_t different = 0;
  for (int i = 0; i < count; ++i) {
    const unit_case c = maker.make(detail::all_kinds);
    different += result_of(x, c) != result_of(y, c);
  }
  return different;
}

/// Its own name is among those that fit; all of them, and the description, compute the same.
void check_identified(machine_unit const& unit) {
  const auto box = emulated_unit(unit);
  const unit_identification found = identify_unit(*box);
  INFO(unit.name << ": " << found.failure);
  CHECK(std::ranges::count(found.known, unit.name) == 1);
  for (std::string const& name : found.known) {
    INFO(name);
    CHECK(differences(unit, unit_named(name), 10'000) == 0);
  }
  const bool in_family = unit.arithmetic == block_arithmetic::aligned_sum || unit.arithmetic == block_arithmetic::exact_sum;
  CHECK(in_family == (found.description != nullptr));
  if (found.description) CHECK(differences(unit, found.description->unit, 10'000) == 0);
}

template <class Choose>
int check_units(Choose&& choose) {
  int count = 0;
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      if (u.is_scaled() || u.arithmetic == block_arithmetic::grouped_sum || !choose(u)) continue;
      check_identified(u);
      ++count;
    }
  return count;
}

struct environment {
  explicit environment(const char* kind) { setenv("STICKYBIT_BOX", kind, 1); }
  ~environment() { unsetenv("STICKYBIT_BOX"); }
};

unit_identification identify_library(const char* kind) {
  const environment of(kind);
  const auto box = library_unit(STICKYBIT_BOX_LIBRARY, 20);
  return identify_unit(*box);
}

}  // namespace

TEST_CASE("identify unit: every machine's units with FP8 or wider operands, AMD's and FP64 too, 10^4 hard cases each", "[identify]") {
  const int count = check_units([](machine_unit const& u) { return !takes_narrow(u); });
  CHECK(count >= 129);
}

TEST_CASE("identify unit: units with FP6 and FP4 operands, every ninth", "[identify]") {
  int at = 0;
  const int count = check_units([&](machine_unit const& u) { return takes_narrow(u) && at++ % 9 == 0; });
  CHECK(count >= 8);
}

TEST_CASE("identify unit: all units with FP6 and FP4 operands", "[.][identify][all_units]") { CHECK(check_units(takes_narrow) >= 80); }

TEST_CASE("identify unit: a library's chain of FP32 FMAs in descending k is described, and the file reads back", "[identify]") {
  const unit_identification found = identify_library("fma");
  INFO(found.failure);
  REQUIRE(found.description);
  CHECK(found.known.empty());
  machine_unit const& u = found.description->unit;
  CHECK(u.block_size == 1);
  CHECK(u.output_rounding == rounding::nearest_even);
  CHECK(u.nan_bits == 0x7fc00000);
  REQUIRE(u.permutation.size() == 8);
  CHECK(u.permutation[0] == 7);
  CHECK(u.permutation[7] == 0);
  const auto read = parse_unit(unit_json(u, "fma"), "text");
  CHECK(differences(u, read->unit, 10'000) == 0);
}

TEST_CASE("identify unit: a program over pipes answers as the library does", "[identify]") {
  const auto box = program_unit(STICKYBIT_BOX_PROGRAM, 20);
  CHECK(box->formats() == unit_formats{format::bf16, format::bf16, format::f32, format::f32, 8});
  const unit_identification found = identify_unit(*box), library = identify_library("fma");
  REQUIRE(found.description);
  REQUIRE(library.description);
  CHECK(unit_json(found.description->unit, "") == unit_json(library.description->unit, ""));
  CHECK(found.probes == library.probes);
}

TEST_CASE("identify unit: noise, state and an order that depends on the data are not described", "[identify]") {
  for (const char* kind : {"noise", "state", "data"}) {
    const unit_identification found = identify_library(kind);
    INFO(kind);
    CHECK_FALSE(found.description);
    CHECK(found.known.empty());
    CHECK_FALSE(found.failure.empty());
    if (std::string_view(kind) != "data") CHECK(found.failure.starts_with("not a function"));
  }
}

TEST_CASE("identify unit: a library that crashes, hangs, fails or is none is an error that says so", "[identify]") {
  const auto said = [](auto&& run) -> std::string {
    try {
      run();
    } catch (unit_failure const& e) {
      return e.what();
    }
    return "nothing";
  };
  const auto with = [&](const char* kind, double seconds) {
    return said([&] {
      const environment of(kind);
      const auto box = library_unit(STICKYBIT_BOX_LIBRARY, seconds);
      (void)identify_unit(*box);
    });
  };
  CHECK(with("crash", 20).find("crashed: Aborted") != std::string::npos);
  CHECK(with("hang", 1).find("no answer within 1 s") != std::string::npos);
  CHECK(with("refuse", 20).find("ended with status 3") != std::string::npos);
  CHECK(said([] { (void)library_unit("/no/such/library.so", 5); }).find("cannot open") != std::string::npos);
  CHECK(said([] { (void)program_unit("exit 4", 5); }).find("status 4") != std::string::npos);
  CHECK(said([] { (void)program_unit("echo hello", 5); }).find("expected the line 'stickybit-unit 1 A B C D K'") != std::string::npos);
}
