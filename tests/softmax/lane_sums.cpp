// Sums in the four lanes of a row: the host's vectors against the definition, on every SIMD target of this machine.
#include "stickybit/softmax/lane_sums.hpp"

#include <vector>

#include "stickybit/softmax/scalars.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/simd_targets.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

enum class kind { weights, with_zeros, both_signs, cancelling, one_odd, anywhere };

/// What a softmax adds: numbers of (0, 1], a few zeros; what a gradient adds: both signs, sums that end near or below 2^-126;
/// `one_odd`: and one code of any kind; `anywhere`: all of any kind.
f32_code draw(testing::random_bits& next, kind k) {
  if (k == kind::anywhere) return f32_code::from_bits(testing::f32_anywhere(next));
  if (k == kind::with_zeros && next.one_in(3)) return f32_code::zero();
  if (k == kind::both_signs) return f32_code::from_bits(testing::f32_at(next, -next.between(1, 20)));
  if (k == kind::cancelling) return f32_code::from_bits(testing::code_at(next.one_in(2), -next.between(120, 127), next.below(4) << 21, 23));
  return f32_code::from_bits(testing::f32_at(next, -next.between(1, 126)) & 0x7fffffff);
}

template <subnormals S>
void compare(testing::tally& all, testing::random_bits& next, kind k, std::size_t size) {
  std::vector<f32_code> x(size);
  for (f32_code& p : x) p = draw(next, k);
  if (k == kind::one_odd && size != 0) x[next.below(std::uint32_t(size))] = f32_code::from_bits(testing::f32_anywhere(next));
  std::array<f32_code, 4> expected;
  for (f32_code& sum : expected) sum = next.one_in(3) ? f32_code::zero() : draw(next, next.one_in(8) ? kind::anywhere : k);
  std::array<f32_code, 4> got = expected;
  defined_scalars<S>::add_in_lanes(x, expected);
  host_scalars<S>::add_in_lanes(x, got);
  for (std::size_t lane = 0; lane < 4; ++lane)
    all.expect(got[lane] == expected[lane], [&] { return fmt::format("{} numbers, lane {}: {:08x}, not {:08x}", size, lane, got[lane].to_bits(), expected[lane].to_bits()); });
}

}  // namespace

TEST_CASE("sums in lanes: host equals definition, .ftz and not, lengths 0 to 70, sampled", "[softmax][sampled]") {
  constexpr std::uint64_t seed = 0x1a4e;
  testing::tally all(fmt::format("add_in_lanes; targets {}", testing::names_of(testing::simd_targets())), seed);
  for (std::int64_t target : testing::simd_targets()) {
    const testing::forced_target forced(target);
    testing::random_bits next(seed);
    for (int repeat = 0; repeat < 200; ++repeat)
      for (std::size_t size = 0; size <= 70; ++size)
        for (kind k : {kind::weights, kind::with_zeros, kind::both_signs, kind::cancelling, kind::one_odd, kind::anywhere}) {
          compare<subnormals::flushed>(all, next, k, size);
          compare<subnormals::kept>(all, next, k, size);
        }
  }
  all.check();
}

TEST_CASE("sums in lanes: lane q adds the columns with (column mod 8) / 2 = q in ascending order", "[softmax]") {
  // 2^24 + 1 rounds to 2^24: an addition in another order would keep the ones.
  std::vector<f32_code> x(32, f32_code::from_bits(0x3f800000));
  x[2] = f32_code::from_bits(0x4b800000);  // 2^24 first of lane 1
  x[29] = f32_code::from_bits(0x4b800000);  // and last of lane 2
  std::array<f32_code, 4> sums{};
  defined_scalars<subnormals::flushed>::add_in_lanes(x, sums);
  CHECK(sums[0].to_bits() == 0x41000000);  // 8
  CHECK(sums[1].to_bits() == 0x4b800000);  // 2^24
  CHECK(sums[2].to_bits() == 0x4b800004);  // 7 + 2^24, a tie to even
  CHECK(sums[3].to_bits() == 0x41000000);
}
