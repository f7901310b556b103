// Every number of the unit matters: changing any one changes a result that is known.
#include "oracle/block.hpp"
#include "probes.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

struct differences {
  int known = 0, cases = 0;
};

/// In how many inner products with a known result, and in how many of 13 x 4000 generated cases, does the unit differ?
differences count(machine_unit const& mutant) {
  differences found;
  for (auto probes : {testing::h200_probes(), testing::worked_examples()})
    for (testing::probe const& k : probes) found.known += testing::inner_product(mutant, k.a, k.b, k.c) != k.result;
  for (auto const& generator : testing::block_generators) {
    testing::random_bits next(0x3a7);
    testing::block_case k;
    for (int i = 0; i < 4000; ++i) {
      generator.fill(next, k);
      found.cases += testing::inner_product(mutant, k.a, k.b, k.c) != oracle::block({}, k.a, k.b, k.c);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("block_fma on sm90: changing any number of the unit is noticed", "[block_fma][mutation]") {
  struct mutation {
    char const* name;
    machine_unit unit;
  };
  const mutation mutations[] = {
      {"F = 24", testing::with_fraction_bits(24)},
      {"F = 26", testing::with_fraction_bits(26)},
      {"blocks of 8", testing::with_block_size(8)},
      {"E >= -132", testing::with_smallest_exponent(-132)},
      {"E >= -134", testing::with_smallest_exponent(-134)},
      {"E >= -126", testing::with_smallest_exponent(-126)},
      {"nearest_even", testing::with_rounding(rounding::nearest_even)},
      {"toward_negative", testing::with_rounding(rounding::toward_negative)},
      {"toward_positive", testing::with_rounding(rounding::toward_positive)},
      {"c added last", testing::with_accumulator_last()},
  };
  for (mutation const& m : mutations) {
    const differences d = count(m.unit);
    fmt::print("{}: {} known results and {} of {} generated cases differ\n", m.name, d.known, d.cases, 4000 * testing::block_generators.size());
    INFO(m.name);
    CHECK(d.cases > 0);
    CHECK(d.known > 0);
  }
  const differences none = count(testing::hopper());
  CHECK(none.known == 0);
  CHECK(none.cases == 0);
}
