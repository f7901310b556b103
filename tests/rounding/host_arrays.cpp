// The array forms against the definitions, code for code, on every target of Highway that this machine has.
#include "stickybit/rounding/host_arrays.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "operands.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "support/catch.hpp"
#include "support/guarded_array.hpp"
#include "support/simd_targets.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using testing::guarded_array;

namespace {

using codes = std::span<f32_code const>;

struct array_form {
  char const* name;
  bool y_is_array, z_is_array;
  void (*call)(codes x, codes y, codes z, std::span<f32_code> out, subnormals s);
  f32_code (*definition)(f32_code x, f32_code y, f32_code z, subnormals s);
};
f32_code product(f32_code x, f32_code y, f32_code, subnormals s) { return mul(x, y, s); }
f32_code sum(f32_code x, f32_code y, f32_code, subnormals s) { return add(x, y, s); }
f32_code product_and_sum(f32_code x, f32_code y, f32_code z, subnormals s) { return fma(x, y, z, s); }

/// A single operand is the first of its array.
constexpr std::array forms{
    array_form{"mul(x[], y)", false, false, [](codes x, codes y, codes, std::span<f32_code> out, subnormals s) { host::mul(x, y[0], out, s); }, product},
    array_form{"mul(x[], y[])", true, false, [](codes x, codes y, codes, std::span<f32_code> out, subnormals s) { host::mul(x, y, out, s); }, product},
    array_form{"add(x[], y)", false, false, [](codes x, codes y, codes, std::span<f32_code> out, subnormals s) { host::add(x, y[0], out, s); }, sum},
    array_form{"add(x[], y[])", true, false, [](codes x, codes y, codes, std::span<f32_code> out, subnormals s) { host::add(x, y, out, s); }, sum},
    array_form{"fma(x[], y, z)", false, false, [](codes x, codes y, codes z, std::span<f32_code> out, subnormals s) { host::fma(x, y[0], z[0], out, s); }, product_and_sum},
    array_form{"fma(x[], y, z[])", false, true, [](codes x, codes y, codes z, std::span<f32_code> out, subnormals s) { host::fma(x, y[0], z, out, s); }, product_and_sum},
    array_form{"fma(x[], y[], z[])", true, true, [](codes x, codes y, codes z, std::span<f32_code> out, subnormals s) { host::fma(x, y, z, out, s); }, product_and_sum},
};

/// Operands of one call, y and z never empty.
struct arrays {
  std::vector<f32_code> x, y, z;
};

/// One form on every target: out apart from the inputs, and in place of each that is an array.
void compare(testing::tally& all, array_form const& form, arrays const& in, subnormals s) {
  const std::size_t n = in.x.size();
  std::vector<f32_code> expected(n);
  for (std::size_t i = 0; i < n; ++i) expected[i] = form.definition(in.x[i], in.y[form.y_is_array ? i : 0], in.z[form.z_is_array ? i : 0], s);
  for (std::int64_t target : testing::simd_targets()) {
    const testing::forced_target forced(target);
    for (int place = 0; place < 4; ++place) {
      if ((place == 2 && !form.y_is_array) || (place == 3 && !form.z_is_array)) continue;
      guarded_array<f32_code> x(in.x, n % 8), y(codes(in.y).first(form.y_is_array ? n : 1), n % 5), z(codes(in.z).first(form.z_is_array ? n : 1), n % 3), apart(n, n % 7);
      const std::array outputs{&apart, &x, &y, &z};
      guarded_array<f32_code>& out = *outputs[std::size_t(place)];
      form.call(x.values(), y.values(), z.values(), out.values(), s);
      const auto where = [&] { return fmt::format("{}, {}, {} elements, place {}", form.name, hwy::TargetName(target), n, place); };
      all.expect(x.guards_are_whole() && y.guards_are_whole() && z.guards_are_whole() && apart.guards_are_whole(), where);
      for (std::size_t i = 0; i < n; ++i)
        all.expect(out.values()[i] == expected[i], [&] {
          return fmt::format("{}: [{}] {:08x} {:08x} {:08x} {}: {:08x}, not {:08x}", where(), i, in.x[i].to_bits(), in.y[form.y_is_array ? i : 0].to_bits(),
                             in.z[form.z_is_array ? i : 0].to_bits(), s == subnormals::kept ? "kept" : "flushed", out.values()[i].to_bits(), expected[i].to_bits());
        });
    }
  }
}
void compare(testing::tally& all, arrays const& in) {
  for (array_form const& form : forms)
    for (subnormals s : {subnormals::flushed, subnormals::kept}) compare(all, form, in, s);
}

std::string on_targets(std::string const& domain) { return fmt::format("{}; targets {}", domain, testing::names_of(testing::simd_targets())); }

/// Of both signs: zero, subnormals, the ends of the range, powers of two whose products and sums lie at borders, NaN of each kind.
std::vector<f32_code> special_values() {
  constexpr std::array<std::uint32_t, 22> magnitudes{0,          1,          0x00400000, 0x007fffff, 0x00800000, 0x00800001, 0x00ffffff, 0x01000000, 0x1f800000, 0x20000000, 0x33800000,
                                                     0x34000000, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x40000000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
  std::vector<f32_code> values;
  for (std::uint32_t m : magnitudes)
    for (std::uint32_t sign : {0u, 0x80000000u}) values.push_back(f32_code::from_bits(sign | m));
  return values;
}

/// x·y next to ±2^-126 for finite x: y is near 2^-126 / x; z is 0, or moves the sum by less than an ulp, or by a few.
testing::operands next_to_the_smallest_normal(testing::random_bits& next) {
  const int e = next.between(-60, 60);
  const std::uint32_t x = testing::f32_at(next, e), significand = (x & 0x7fffff) | 0x800000;
  const auto quotient = std::uint32_t((std::uint64_t{1} << 47) / significand);  // 2^23 … 2^24
  const int biased_e = quotient >> 24 != 0 ? -e : -1 - e;
  const std::uint32_t y = (x & 0x80000000) + (std::uint32_t(biased_e + 1) << 23) + (quotient & 0x7fffff) + next.below(7) - 3;
  switch (next.below(4)) {
    case 0: return {x, y, next.one_in(2) ? 0x80000000u : 0u};
    case 1: return {x, y, testing::f32_at(next, next.between(-149, -140))};
    case 2: return {0x3f800000u - next.below(3), 0x00800000u + next.below(3), next.one_in(2) ? 0x80000000u : 0u};
    default: return {testing::f32_at(next, -70), testing::f32_at(next, next.between(-110, -75)), 0x00800000u + next.below(3) - 1 + (next.one_in(2) ? 0x80000000u : 0u)};
  }
}

arrays made_by(testing::operands (*make)(testing::random_bits&), testing::random_bits& next, std::size_t n) {
  arrays in;
  for (std::size_t i = 0; i < n + (n == 0 ? 1 : 0); ++i) {
    const auto o = make(next);
    if (n != 0) in.x.push_back(f32_code::from_bits(o.a));
    in.y.push_back(f32_code::from_bits(o.b));
    in.z.push_back(f32_code::from_bits(o.c));
  }
  return in;
}

void sample(std::uint64_t seed, int repeats) {
  REQUIRE(host::is_ieee());
  for (auto const& generator : testing::operand_generators) {
    testing::random_bits next(seed);
    testing::tally all(on_targets(fmt::format("array mul, add, fma, .ftz and not, against the definitions, {}", generator.name)), seed);
    for (int i = 0; i < repeats; ++i) compare(all, made_by(generator.make, next, next.below(100)));
    all.check();
  }
}

f32_code folded(codes x, f32_code start, subnormals s) {
  for (f32_code c : x) start = max(start, c, s);
  return start;
}
void compare_max(testing::tally& all, codes x, f32_code start) {
  for (subnormals s : {subnormals::flushed, subnormals::kept}) {
    const f32_code expected = folded(x, start, s);
    for (std::int64_t target : testing::simd_targets()) {
      const testing::forced_target forced(target);
      const f32_code got = host::max(x, start, s);
      all.expect(got == expected, [&] { return fmt::format("{}, {} elements, start {:08x}: {:08x}, not {:08x}", hwy::TargetName(target), x.size(), start.to_bits(), got.to_bits(), expected.to_bits()); });
    }
  }
}

void compare_to_bf16(testing::tally& all, codes x) {
  std::vector<bf16_code> expected(x.size()), got(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = convert<format::bf16>(x[i]);
  for (std::int64_t target : testing::simd_targets()) {
    const testing::forced_target forced(target);
    host::to_bf16(x, got);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) wrong += got[i] != expected[i];
    all.add(x.size(), wrong, [&] { return fmt::format("{}, first code {:08x}", hwy::TargetName(target), x[0].to_bits()); });
  }
}
/// Codes first, first + step, …
void fill(std::vector<f32_code>& x, std::uint64_t first, std::uint64_t step) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = f32_code::from_bits(std::uint32_t(first + i * step));
}

}  // namespace

TEST_CASE("host arrays: equal to the definitions, special values in every operand", "[rounding]") {
  REQUIRE(host::is_ieee());
  const auto special = special_values();
  testing::tally all(on_targets(fmt::format("array mul, add, fma, .ftz and not, {} special values for each of x, y, z", special.size())));
  for (f32_code y : special)
    for (f32_code z : special) compare(all, {special, std::vector(special.size(), y), std::vector(special.size(), z)});
  all.check();
}

TEST_CASE("host arrays: equal to the definitions, sampled", "[rounding][sampled]") { sample(0xa44a, 100); }
TEST_CASE("host arrays: equal to the definitions, larger sample", "[.long][rounding]") { sample(0xa44b, 20000); }

TEST_CASE("host arrays: results next to 2^-126 are flushed by what they were before rounding, sampled", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xa44c;
  testing::random_bits next(seed);
  testing::tally all(on_targets("array mul, add, fma, .ftz and not, results next to 2^-126"), seed);
  std::uint64_t kept = 0, flushed = 0;
  for (int i = 0; i < 1000; ++i) {
    const arrays in = made_by(next_to_the_smallest_normal, next, 1 + next.below(64));
    for (std::size_t k = 0; k < in.x.size(); ++k) {
      if ((host::fma(in.x[k], in.y[k], in.z[k]).to_bits() & 0x7fffffff) != 0x00800000) continue;
      (fma(in.x[k], in.y[k], in.z[k], subnormals::flushed).is_zero() ? flushed : kept) += 1;
    }
    compare(all, in);
  }
  all.check();
  fmt::print("x*y + z is 2^-126 by IEEE 754: kept {}, flushed {}\n", kept, flushed);
  CHECK(kept > 1000);
  CHECK(flushed > 1000);
}

TEST_CASE("host arrays: every length 0 to 70, in place or not, nothing written outside", "[rounding]") {
  constexpr std::uint64_t seed = 0xa44d;
  testing::random_bits next(seed);
  testing::tally all(on_targets("array mul, add, fma, lengths 0 ... 70"), seed), conversions(on_targets("array to_bf16, widen, lengths 0 ... 70"), seed);
  for (std::size_t n = 0; n <= 70; ++n) {
    const arrays in = made_by(testing::operand_generators[0].make, next, n);
    compare(all, in);
    for (std::int64_t target : testing::simd_targets()) {
      const testing::forced_target forced(target);
      guarded_array<f32_code> x(in.x, n % 8), wide(n, n % 5);
      guarded_array<bf16_code> narrow(n, n % 7);
      host::to_bf16(x.values(), narrow.values());
      host::widen(narrow.values(), wide.values());
      const auto where = [&] { return fmt::format("{}, {} elements", hwy::TargetName(target), n); };
      conversions.expect(x.guards_are_whole() && narrow.guards_are_whole() && wide.guards_are_whole(), where);
      for (std::size_t i = 0; i < n; ++i) conversions.expect(narrow.values()[i] == convert<format::bf16>(in.x[i]) && wide.values()[i] == widen(narrow.values()[i]), where);
    }
  }
  all.check();
  conversions.check();
}

TEST_CASE("host arrays: max is stickybit::max folded, special values, lengths 0 to 70", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xa44e;
  testing::random_bits next(seed);
  const auto special = special_values();
  testing::tally all(on_targets("array max, .ftz and not: each special value in a row of another, and sampled rows"), seed);
  for (f32_code start : special)
    for (f32_code most : special)
      for (f32_code other : special)
        for (std::size_t n : {0, 1, 3, 37}) {
          std::vector<f32_code> x(n, most);
          if (n != 0) x[next.below(std::uint32_t(n))] = other;
          compare_max(all, x, start);
        }
  for (int i = 0; i < 20000; ++i) {
    std::vector<f32_code> x(next.below(71));
    const bool only_special = next.one_in(2);
    for (f32_code& c : x) c = only_special ? special[next.below(std::uint32_t(special.size()))] : f32_code::from_bits(testing::f32_anywhere(next));
    if (next.one_in(2))
      for (f32_code& c : x) c = f32_code::from_bits(c.to_bits() | 0x80000000);
    compare_max(all, x, special[next.below(std::uint32_t(special.size()))]);
  }
  all.check();
}

TEST_CASE("host arrays: widen, all 2^16 codes", "[rounding]") {
  testing::tally all(on_targets("array widen, all 2^16 codes"));
  std::vector<bf16_code> x(0x10000);
  std::vector<f32_code> got(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16_code::from_bits(std::uint16_t(i));
  for (std::int64_t target : testing::simd_targets()) {
    const testing::forced_target forced(target);
    host::widen(x, got);
    for (std::size_t i = 0; i < x.size(); ++i) all.expect(got[i] == widen(x[i]), [&] { return fmt::format("{}, {:04x}", hwy::TargetName(target), i); });
  }
  all.check();
}

TEST_CASE("host arrays: to_bf16, every upper half with the lower halves next to a tie, and every 509th code", "[rounding]") {
  testing::tally ties(on_targets("array to_bf16, 2^16 upper halves x 6 lower halves")), spread(on_targets("array to_bf16, every 509th code"));
  std::vector<f32_code> x(0x10000);
  for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    fill(x, low, 0x10000);
    compare_to_bf16(ties, x);
  }
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += 509 * x.size()) {
    fill(x, first, 509);
    compare_to_bf16(spread, x);
  }
  ties.check();
  spread.check();
}

TEST_CASE("host arrays: to_bf16, all 2^32 codes", "[.][rounding][exhaustive]") {
  testing::tally all(on_targets("array to_bf16, all 2^32 codes"));
  std::vector<f32_code> x(0x10000);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += x.size()) {
    fill(x, first, 1);
    compare_to_bf16(all, x);
  }
  all.check();
}
