// Every unit of every machine against an oracle on rational numbers, and what the numbers of the new ones do, by hand.
#include <bit>
#include <cmath>

#include "oracle/unit.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

oracle::number_format numbers_of(format f) {
  switch (f) {
    case format::bf16: return oracle::bf16_format;
    case format::f16: return oracle::f16_format;
    case format::tf32: return oracle::tf32_format;
    case format::e4m3fn: return oracle::e4m3fn_format;
    case format::e5m2: return oracle::e5m2_format;
    case format::e4m3fnuz: return oracle::e4m3fnuz_format;
    case format::e5m2fnuz: return oracle::e5m2fnuz_format;
    case format::e8m0: return oracle::e8m0_format;
    case format::e2m1: return oracle::e2m1_format;
    case format::e3m2: return oracle::e3m2_format;
    case format::e2m3: return oracle::e2m3_format;
    default: return oracle::f32_format;
  }
}

oracle::unit_rules rules_of(machine_unit const& u) {
  oracle::unit_rules r{.a = numbers_of(u.input), .b = numbers_of(u.input_b)};
  switch (u.arithmetic) {
    case block_arithmetic::aligned_sum: r.how = oracle::summation::aligned; break;
    case block_arithmetic::grouped_sum: r.how = oracle::summation::grouped; break;
    case block_arithmetic::exact_sum: r.how = oracle::summation::exact; break;
    case block_arithmetic::rounded_tree: r.how = oracle::summation::tree; break;
    case block_arithmetic::two_stage_sum: r.how = oracle::summation::two_stage; break;
    case block_arithmetic::fma_chain: FAIL("no rules of FP64");
  }
  r.block = u.block_size;
  r.blocks = u.instruction_k / u.block_size;
  r.pairs = u.order == product_order::pairs;
  r.even_odd = u.order == product_order::even_odd;
  r.accumulator_last = u.accumulator == accumulator_place::added_last;
  r.fraction_bits = u.alignment_fraction_bits;
  r.sum_bits = u.sum_fraction_bits;
  r.smallest_exponent = u.min_alignment_exponent;
  r.output = u.output_rounding == rounding::nearest_even ? oracle::direction::nearest_even : oracle::direction::zero;
  r.result_fraction_bits = u.output_fraction_bits;
  r.half = u.output == format::f16;
  r.scale_block = u.scale_block;
  r.group = u.group_size;
  r.scale = numbers_of(u.scale);
  r.flush = u.flushes_subnormals;
  r.converts = u.converts_to_f16;
  return r;
}

enum class kind : std::uint8_t { any_bits, near, wide, cancelling, c_offset, few };
constexpr std::array kinds{kind::any_bits, kind::near, kind::wide, kind::cancelling, kind::c_offset, kind::few};

/// A code without padding: any, or a number with an exponent near `e`.
std::uint32_t operand(testing::random_bits& next, oracle::number_format const& f, kind which, int e, int spread) {
  const std::uint32_t codes = std::uint32_t{1} << (f.exponent_width + f.fraction_width + (f.sign != 0 ? 1 : 0));
  if (which == kind::any_bits) return next.below(codes);
  const int field = std::clamp(e + next.between(-spread, spread) + f.bias, 0, (1 << f.exponent_width) - 1);
  std::uint32_t magnitude = (std::uint32_t(field) << f.fraction_width) + testing::fraction_pattern(next, std::max(f.fraction_width, 1)) % (std::uint32_t{1} << f.fraction_width);
  if (magnitude > f.largest) magnitude = f.largest;
  return magnitude + (next.one_in(2) ? f.sign : 0);
}

oracle::unit_case drawn(testing::random_bits& next, oracle::unit_rules const& r, kind which, std::size_t length) {
  const int reach = (1 << (r.a.exponent_width - 1)) - 1, level = which == kind::wide ? next.between(-reach, reach) : next.between(-4, 4), spread = which == kind::wide ? reach / 4 : 3;
  oracle::unit_case x;
  for (std::size_t k = 0; k < length; ++k) {
    x.a.push_back(operand(next, r.a, which, level, spread));
    x.b.push_back(operand(next, r.b, which, -level, spread));
    if (which == kind::few && !next.one_in(6)) (next.one_in(2) ? x.a : x.b).back() = 0;
    if (which == kind::cancelling && k % 2 == 1) {
      x.a[k] = x.a[k - 1] ^ r.a.sign;
      x.b[k] = x.b[k - 1];
    }
  }
  if (which == kind::any_bits) x.c = next.one_in(2) ? testing::f32_anywhere(next) : std::uint32_t(next());
  else if (which == kind::few && next.one_in(2)) x.c = next.one_in(2) ? 0 : 0x80000000;
  else x.c = testing::f32_at(next, which == kind::c_offset ? next.between(-60, 60) : next.between(-12, 12));
  if (r.scale_block != 0)
    for (auto* scales : {&x.scale_a, &x.scale_b})
      for (std::size_t k = 0; k < length; k += std::size_t(r.scale_block))
        scales->push_back(which == kind::any_bits ? next.below(256) : which == kind::wide ? next.below(0x7f) : r.scale.sign == 0 ? std::uint32_t(127 + next.between(-5, 5)) : std::uint32_t(next.between(0x28, 0x50)));
  return x;
}

std::vector<std::uint64_t> stored(std::vector<std::uint32_t> const& codes, oracle::number_format const& f, testing::random_bits& next) {
  std::vector<std::uint64_t> bits;
  for (std::uint32_t c : codes) bits.push_back((std::uint64_t{c} << f.padding) | (f.padding != 0 ? next() & ((std::uint64_t{1} << f.padding) - 1) : 0));
  return bits;
}

std::uint64_t by_library(machine_unit const& u, oracle::unit_rules const& r, oracle::unit_case const& x) {
  testing::random_bits padding(x.c);
  const auto a = stored(x.a, r.a, padding), b = stored(x.b, r.b, padding);
  const std::vector<std::uint64_t> scale_a(x.scale_a.begin(), x.scale_a.end()), scale_b(x.scale_b.begin(), x.scale_b.end());
  return evaluate(u, {a, b, scale_a, scale_b, x.c});
}

std::string in_words(oracle::unit_case const& x, std::uint64_t got, std::uint32_t expected) {
  std::string text = fmt::format("c {:08x}", x.c);
  for (std::size_t k = 0; k < x.a.size(); ++k) text += fmt::format(" {:x}*{:x}", x.a[k], x.b[k]);
  for (std::size_t k = 0; k < x.scale_a.size(); ++k) text += fmt::format(" scales {:x} {:x}", x.scale_a[k], x.scale_b[k]);
  return text + fmt::format(": {:08x}, not {:08x}", got, expected);
}

std::uint64_t e5m2(double x) { return convert<format::e5m2>(f32_code::from_bits(std::bit_cast<std::uint32_t>(float(x)))).to_bits(); }
std::uint64_t f32_of(double x) { return std::bit_cast<std::uint32_t>(float(x)); }

/// Products of numbers, the other operands 0.
std::uint64_t e5m2_sum(const char* unit, std::vector<std::array<double, 3>> const& products, double c) {
  std::vector<std::uint64_t> a(32), b(32);
  for (auto const& [k, x, y] : products) {
    a[std::size_t(k)] = e5m2(x);
    b[std::size_t(k)] = e5m2(y);
  }
  return evaluate(unit_named(unit), {a, b, {}, {}, f32_of(c)});
}

}  // namespace

TEST_CASE("every unit: equals the oracle on rational numbers, sampled", "[block_fma][sampled]") {
  for (machine const* m : all_machines()) {
    testing::tally all(fmt::format("evaluate, every unit of {}, lengths 1 ... 70", m->name), 0xe7);
    for (machine_unit const& u : m->units) {
      if (u.arithmetic == block_arithmetic::fma_chain) continue;
      const oracle::unit_rules r = rules_of(u);
      testing::random_bits next(std::uint64_t{0xe7} + std::uint64_t(u.block_size));
      const int count = m->units.size() > 50 ? 6 : 25;
      for (kind which : kinds)
        for (int i = 0; i < count; ++i) {
          const oracle::unit_case x = drawn(next, r, which, next.one_in(2) ? std::size_t(u.instruction_k) : std::size_t(next.between(1, 70)));
          const std::uint64_t got = by_library(u, r, x);
          const std::uint32_t expected = oracle::inner_product(r, x);
          all.expect(got == expected, [&] { return fmt::format("{}: {}", u.name, in_words(x, got, expected)); });
        }
    }
    all.check();
  }
}

TEST_CASE("every unit: changing a number is noticed by the oracle's cases", "[block_fma][mutation]") {
  struct change {
    const char* what;
    const char* unit;
    void (*to)(machine_unit&);
  };
  const change changes[] = {
      {"ascending for pairs", "sm90.mma.e5m2.f16", [](machine_unit& u) { u.order = product_order::ascending; }},
      {"c aligned", "sm90.mma.e4m3.f32", [](machine_unit& u) { u.accumulator = accumulator_place::aligned; }},
      {"one block of 32", "sm90.mma.e4m3.f16", [](machine_unit& u) { u.block_size = 32; u.order = product_order::ascending; }},
      {"blocks of 8 of TF32", "sm80.mma.tf32.f32", [](machine_unit& u) { u.block_size = 8; }},
      {"F = 34", "sm120.mma.nvf4.f32", [](machine_unit& u) { u.alignment_fraction_bits = 34; }},
      {"groups of 32", "sm120.mma.mxf4.f32", [](machine_unit& u) { u.group_size = 32; u.alignment_fraction_bits = 20; }},
      {"even and odd k together", "cdna3.mfma.e4m3fnuz.f32", [](machine_unit& u) { u.order = product_order::ascending; }},
      {"sum at 26 bits", "cdna3.mfma.bf16.f32", [](machine_unit& u) { u.sum_fraction_bits = 26; }},
      {"subnormals kept", "cdna2.mfma.f16.f32", [](machine_unit& u) { u.flushes_subnormals = false; }},
      {"a tree for the exact sum", "cdna1.mfma.bf16.f32", [](machine_unit& u) { u.arithmetic = block_arithmetic::rounded_tree; }},
  };
  for (change const& c : changes) {
    machine_unit changed = unit_named(c.unit);
    const oracle::unit_rules r = rules_of(changed);
    c.to(changed);
    testing::random_bits next(0x5eed);
    int different = 0;
    for (kind which : kinds)
      for (int i = 0; i < 300; ++i) {
        const oracle::unit_case x = drawn(next, r, which, 64);
        different += by_library(changed, r, x) != oracle::inner_product(r, x);
      }
    fmt::print("{} on {}: {} of 1800 differ\n", c.what, c.unit, different);
    INFO(c.what << ", " << c.unit);
    CHECK(different > 0);
  }
}

TEST_CASE("FP8 through mma.sync on sm90: two blocks of pairs, c last", "[block_fma][golden]") {
  const double big = 32768;
  CHECK(e5m2_sum("sm90.mma.e5m2.f32", {{2, big, big}, {3, -big, big}}, 1) == f32_of(1));          // in one block with c, 1 would be lost
  CHECK(e5m2_sum("sm90.wgmma.e5m2.f32", {{2, big, big}, {3, -big, big}}, 1) == f32_of(0));
  CHECK(e5m2_sum("sm90.mma.e5m2.f32", {{0, 4, 4}, {2, big, big}, {3, -big, big}}, 0) == f32_of(0));  // the first block's 16 meets 2^30
  CHECK(e5m2_sum("sm90.mma.e5m2.f32", {{2, 4, 4}, {0, big, big}, {1, -big, big}}, 0) == f32_of(16));
  CHECK(e5m2_sum("sm90.mma.e5m2.f32", {{16, 4, 4}, {2, big, big}, {3, -big, big}}, 0) == f32_of(0));  // k = 16 is in the first block
  CHECK(e5m2_sum("sm90.mma.e5m2.f32", {{18, 4, 4}, {2, big, big}, {3, -big, big}}, 0) == f32_of(0));  // 16 in the block with 2^30: cut
}

TEST_CASE("FP8 through mma.sync on sm90: an E4M3 subnormal is a normal number of FP16", "[block_fma][golden]") {
  // 2^-9·2^15 − 2^-9·2^15 + 2^-2·2^-16: with the exponent of E4M3's smallest normal, 2^-6, the last product would lie below 2^(9 − 25).
  std::vector<std::uint64_t> a(32), b(32);
  a[0] = 0x01, a[4] = 0x81, a[1] = 0x28;
  b[0] = b[4] = 0x78, b[1] = 0x01;
  machine_unit unit = unit_named("sm90.mma.e4m3xe5m2.f32");
  CHECK(evaluate(unit, {a, b, {}, {}, 0}) == f32_of(0x1p-18));
  CHECK(oracle::inner_product(rules_of(unit), {{a.begin(), a.end()}, {b.begin(), b.end()}, {}, {}, 0}) == f32_of(0x1p-18));
  unit.converts_to_f16 = false;
  CHECK(evaluate(unit, {a, b, {}, {}, 0}) == 0);
}

TEST_CASE("scales: exponents add, FP4 sums are exact before them", "[block_fma][golden]") {
  const std::vector<std::uint64_t> a(64, 2), b(64, 7), nvidia{0x38, 0x38, 0x38, 0x38}, twice{0x38, 0x40, 0x38, 0xb8}, e8m0{127, 130}, ones{127, 127}, nan{255, 127};
  const auto sum = [&](const char* unit, auto const& sa, auto const& sb, double c) { return evaluate(unit_named(unit), {a, b, sa, sb, f32_of(c)}); };
  CHECK(sum("sm120.mma.nvf4.f32", nvidia, twice, 1) == f32_of(16 * 6 * 5 + 1));  // the sign of 0xb8 is ignored
  CHECK(sum("sm120.mma.mxf4.f32", e8m0, ones, 0) == f32_of(32 * 6 * 9));
  CHECK(sum("sm120.mma.mxf4.f32", nan, ones, 0) == 0x7fffffff);
  const std::vector<std::uint64_t> x(32, 0x38), three{130}, one{127};
  CHECK(evaluate(unit_named("sm100.tcgen05.mxe4m3.f32"), {x, x, three, one, f32_of(1)}) == f32_of(257));
}

TEST_CASE("FP64: a chain of FMAs in ascending k", "[block_fma][golden]") {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const std::vector<std::uint64_t> a{bits(0x1p60), bits(1 + 0x1p-52), bits(-0x1p60)}, b{bits(1), bits(1 + 0x1p-52), bits(1)};
  CHECK(evaluate(unit_named("sm90.mma.f64.f64"), {a, b, {}, {}, 0}) == bits(0));
  const std::vector<std::uint64_t> c{a[1]}, d{b[1]};
  CHECK(evaluate(unit_named("sm90.mma.f64.f64"), {c, d, {}, {}, bits(-1)}) == bits(0x1p-51 + 0x1p-104));
}

TEST_CASE("evaluate: lengths that do not go together throw shape_error", "[block_fma]") {
  const std::vector<std::uint64_t> a(32), b(31), one{127};
  CHECK_THROWS_AS(evaluate(unit_named("sm90.mma.e4m3.f32"), {a, b, {}, {}, 0}), shape_error);
  CHECK_THROWS_AS(evaluate(unit_named("sm90.mma.e4m3.f32"), {a, a, one, one, 0}), shape_error);
  CHECK_THROWS_AS(evaluate(unit_named("sm120.mma.mxe4m3.f32"), {a, a, {}, {}, 0}), shape_error);
  CHECK_NOTHROW(evaluate(unit_named("sm120.mma.mxe4m3.f32"), {a, a, one, one, 0}));
}

TEST_CASE("unit names: each is its machine's, and no two units share one", "[machine]") {
  std::vector<std::string_view> names;
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      CHECK(u.name.starts_with(std::string(m->name) + "."));
      CHECK(std::ranges::count(u.name, '.') == 3);
      CHECK(!u.facts.empty());
      CHECK(&unit_named(u.name) == &u);
      names.push_back(u.name);
    }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
  CHECK_THROWS_AS(unit_named("sm90.mma.e9m9.f32"), unknown_name);
  CHECK_THROWS_WITH(unit_named("sm91.mma.bf16.f32"), Catch::Matchers::Contains("a machine among sm70, sm75"));
}
