// Every code of 21 binades against what an H200 gave: by fingerprint everywhere, value by value where the records are present.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "binades.hpp"
#include "dumps.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

void equal_the_records(testing::special_function f) {
  if (!testing::dumps_available()) return;
  for (testing::binade const& b : testing::binades) {
    if (b.function != f) continue;
    testing::tally all(fmt::format("{} against an H200, 2^23 codes from {:08x}", b.name, b.first));
    testing::fingerprint recorded;
    const std::vector<std::uint32_t> results = testing::read_dump(testing::dump_folder() / (std::string(b.name) + ".i32delta.xz"));
    for (std::uint32_t i = 0; i < 0x800000; ++i) {
      recorded.add(results[i]);
      const std::uint32_t got = testing::value_of(f, b.first + i);
      all.expect(got == results[i], [&] { return fmt::format("at {:08x}: {:08x}, the H200 gave {:08x}", b.first + i, got, results[i]); });
    }
    all.check();
    CHECK(recorded.value() == b.fingerprint);
  }
}

void have_the_fingerprints(testing::special_function f) {
  testing::tally all("fingerprints of binades of 2^23 codes recorded on an H200");
  for (testing::binade const& b : testing::binades) {
    if (b.function != f) continue;
    testing::fingerprint computed;
    for (std::uint32_t i = 0; i < 0x800000; ++i) computed.add(testing::value_of(f, b.first + i));
    all.expect(computed.value() == b.fingerprint, [&] { return fmt::format("{}: {:016x}, the H200's is {:016x}", b.name, computed.value(), b.fingerprint); });
  }
  all.check();
}

}  // namespace

TEST_CASE("ex2: has an H200's fingerprint on every code of 0.25 to 2 and -2 to -0.5", "[sfu][golden]") { have_the_fingerprints(&ex2); }
TEST_CASE("rcp: has an H200's fingerprint on every code of 1 to 2", "[sfu][golden]") { have_the_fingerprints(&rcp); }
TEST_CASE("rsqrt: has an H200's fingerprint on every code of 1 to 4", "[sfu][golden]") { have_the_fingerprints(&rsqrt); }
TEST_CASE("lg2: has an H200's fingerprint on every code of 13 binades", "[sfu][golden]") { have_the_fingerprints(&lg2); }

TEST_CASE("ex2: equals an H200 on every code of 0.25 to 2 and -2 to -0.5", "[sfu][captures]") { equal_the_records(&ex2); }
TEST_CASE("rcp: equals an H200 on every code of 1 to 2", "[sfu][captures]") { equal_the_records(&rcp); }
TEST_CASE("rsqrt: equals an H200 on every code of 1 to 4", "[sfu][captures]") { equal_the_records(&rsqrt); }
TEST_CASE("lg2: equals an H200 on every code of 13 binades", "[sfu][captures]") { equal_the_records(&lg2); }

TEST_CASE("ex2, lg2, rcp, rsqrt: equal an H200 on its recorded special values", "[sfu][captures]") {
  std::ifstream in(testing::dump_folder() / "specials.txt");
  if (!in) {
    fmt::print("SKIPPED: no file {}\n", (testing::dump_folder() / "specials.txt").string());
    return;
  }
  testing::tally all("ex2, lg2, rcp, rsqrt at the operands of specials.txt");
  std::string line;
  while (std::getline(in, line)) {  // "in X: ex2.ftz lg2.ftz rcp.ftz tanh rsqrt.ftz ex2 (names)"
    std::istringstream words(line);
    std::string word;
    std::uint32_t x = 0, ex2_ftz = 0, lg2_ftz = 0, rcp_ftz = 0, tanh = 0, rsqrt_ftz = 0;
    char colon = 0;
    if (!(words >> word >> std::hex >> x >> colon >> ex2_ftz >> lg2_ftz >> rcp_ftz >> tanh >> rsqrt_ftz)) continue;
    using testing::value_of;
    all.expect(value_of(&ex2, x) == ex2_ftz && value_of(&lg2, x) == lg2_ftz && value_of(&rcp, x) == rcp_ftz && value_of(&rsqrt, x) == rsqrt_ftz, [&] { return line; });
  }
  CHECK(all.cases() == 23);
  all.check();
}
