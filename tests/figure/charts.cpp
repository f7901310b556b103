// What each chart says of its numbers.
#include <chrono>
#include <limits>

#include "drawn.hpp"
#include "samples.hpp"
#include "stickybit/figure/svg.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit::figure;
using Catch::Matchers::Contains;

namespace {

#ifdef NDEBUG
constexpr bool is_optimised = true;
#else
constexpr bool is_optimised = false;
#endif

/// x of the diamonds: the first of a number line is the exact value.
double middle_of(polygon const& diamond) { return (diamond.points[0].x + diamond.points[2].x) / 2; }

template <format F>
rounded event_of(rounding_rule rule, bool negative, int exponent, std::uint64_t significand) {
  rounded event{};
  (void)round_pack<F>(rule, negative, exponent, significand, [&](rounded const& e) { event = e; });
  return event;
}

/// Roundings of every kind: fitting, below, at and above half, overflow, underflow, flushed, zero.
template <format F>
std::int64_t check_roundings() {
  std::int64_t count = 0;
  for (auto mode : {rounding::nearest_even, rounding::toward_zero, rounding::toward_positive, rounding::to_odd, rounding::stochastic})
    for (bool negative : {false, true})
      for (auto subnormal : {subnormals::kept, subnormals::flushed})
        for (int exponent = -300; exponent <= 140; exponent += 5)
          for (std::uint64_t significand : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x96870f}, std::uint64_t{0xffffffff}, std::uint64_t{0x8000000000000001}, ~std::uint64_t{0}}) {
            const rounded e = event_of<F>({.mode = mode, .subnormal = subnormal}, negative, exponent, significand);
            const scene s = number_line(e);
            CAPTURE(traits_of(F).name, int(mode), negative, int(subnormal), exponent, significand, words_of(s));
            REQUIRE_NOTHROW(check(s));
            REQUIRE(outside(s) == std::vector<std::string>{});
            REQUIRE(overlapping_texts(s) == std::vector<std::string>{});
            ++count;
          }
  return count;
}

}  // namespace

TEST_CASE("number line: the paper's sum lies past the midpoint and goes to the odd neighbour", "[figure]") {
  const scene s = number_line(sample_rounding());
  const std::string words = words_of(s);
  for (const char* part : {"−4.71875", "−4.6875", "0xC097", "0xC096", "more than half an ulp", "−0.4724 ulp", "exact −4.703986644744873", "half-way", "odd", "even"}) CHECK_THAT(words, Contains(part));
  // Numbers grow to the right, so the chosen −4.71875 is left of the exact value, and that left of −4.6875.
  const auto x_of = [&](std::string_view wanted) {
    for (text const& t : parts_of<text>(s))
      if (t.words == wanted) return t.x;
    return -1.0;
  };
  const double exact = middle_of(parts_of<polygon>(s).back());
  CHECK(x_of("−4.71875") < exact);
  CHECK(exact < x_of("−4.6875"));
  CHECK((x_of("−4.6875") - exact) / (x_of("−4.6875") - x_of("−4.71875")) == Approx(0.5276).margin(0.001));
}

TEST_CASE("number line: ties, values that fit, overflow, flushing, the step between binades", "[figure]") {
  CHECK_THAT(words_of(number_line(event_of<format::bf16>({}, false, -8, 257))), Contains("exactly half an ulp cut and lost"));
  CHECK_THAT(words_of(number_line(event_of<format::bf16>({}, false, 0, 3))), Contains("the value fits"));
  const scene overflow = number_line(event_of<format::bf16>({}, false, 200, 1));
  CHECK_THAT(words_of(overflow), Contains("∞") && Contains("overflow"));
  CHECK_THAT(overflow.caption, Contains("beyond the largest finite number"));
  CHECK_THAT(words_of(number_line(event_of<format::bf16>({.mode = rounding::toward_zero}, false, 200, 1))), !Contains("∞") && Contains("0x7F7F"));
  CHECK_THAT(words_of(number_line(event_of<format::f32>({.subnormal = subnormals::flushed}, false, -149, 5))), Contains("flushed to zero") && Contains("1.1754943508222875e−38"));
  // An eighth of an ulp below the smallest normal number, with flushing: it is that number.
  const scene kept = number_line(event_of<format::f32>({.subnormal = subnormals::flushed}, false, -152, (1 << 26) - 1));
  CHECK(middle_of(parts_of<polygon>(kept).back()) == Approx(240 + 0.875 * 200));
  // Below 1 the gap is half as wide.
  const scene binade = number_line(event_of<format::bf16>({}, false, -20, (1 << 20) + 1));
  CHECK_THAT(words_of(binade), Contains("0.99609375\n"));
}

TEST_CASE("number line: every format, mode and kind of rounding, inside the frame", "[figure]") {
  std::int64_t count = check_roundings<format::bf16>() + check_roundings<format::f32>() + check_roundings<format::f16>() + check_roundings<format::tf32>();
  count += check_roundings<format::e4m3fn>() + check_roundings<format::e5m2>() + check_roundings<format::e4m3fnuz>() + check_roundings<format::e5m2fnuz>();
  count += check_roundings<format::e8m0>() + check_roundings<format::e2m1>() + check_roundings<format::e3m2>() + check_roundings<format::e2m3>();
  WARN(count << " roundings: 12 formats, 5 modes, 2 signs, 89 exponents, 6 significands");
}

TEST_CASE("heat map: cells are means of their parts, the scale ends at the quantile", "[figure]") {
  std::vector<double> values(192 * 96);  // two rows a cell: 1 and 3, in column 0 NaN and 3, in column 1 nothing finite
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i / 96 % 2 == 0 ? 1 : 3;
  for (std::size_t row = 0; row < 192; ++row) {
    if (row % 2 == 0) values[row * 96] = NAN;
    values[row * 96 + 1] = INFINITY;
  }
  const scene s = heat_map({"t", "row", "column", "ulp", 192, 96, values, 1.0});
  const auto map = parts_of<raster>(s).front();
  CHECK(map.columns == 96);
  CHECK(map.levels.size() == 96 * 96);
  CHECK(int(map.levels[0]) == 10);                // mean 3, the largest
  CHECK(int(map.levels[1]) == raster::missing);
  CHECK(int(map.levels[2]) == 7);                 // mean 2 of 3
  CHECK_THAT(s.caption, Contains("192 × 96 values drawn as 96 × 96 cells") && Contains("288 values not finite"));
  values.assign(100, -1);
  values[7] = 1000;
  const scene clipped = heat_map({"t", "row", "column", "ulp", 10, 10, values, 0.9});
  CHECK(int(parts_of<raster>(clipped).front().levels[0]) == -10);
  CHECK(int(parts_of<raster>(clipped).front().levels[7]) == 10);
  CHECK_THAT(clipped.caption, Contains("ends at ±1 ulp, the 0.9 quantile"));
  CHECK_THROWS_AS(heat_map({"t", "row", "column", "ulp", 3, 3, values}), std::invalid_argument);
}

TEST_CASE("heat map: 4096 × 128 in less than 50 ms, and less than 200 kB of SVG", "[figure]") {
  const owned_map map = sample_map(4096, 128);
  std::string svg;
  double ms = 1e9;  // of the fastest of some runs: others may use the machine
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    svg = to_svg(heat_map(map.data), {.standalone = false});
    ms = std::min(ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  WARN(fmt::format("{:.1f} ms, {} bytes", ms, svg.size()));
  CHECK((ms < 50 || !is_optimised));
  CHECK(svg.size() < 200'000);
}

TEST_CASE("bar chart: bars go from zero to the value, with its sign in words", "[figure]") {
  const scene s = bar_chart({"t", "mean", "ulp", {{"up", 2}, {"down", -1}, {"none", 0}, {"lost", NAN}}});
  const auto bars = parts_of<rectangle>(s);
  REQUIRE(bars.size() == 2);
  CHECK(bars[0].fill == role::positive);
  CHECK(bars[1].fill == role::negative);
  CHECK(bars[0].x == Approx(bars[1].x + bars[1].width));
  CHECK(bars[0].width == Approx(2 * bars[1].width));
  CHECK_THAT(words_of(s), Contains("+2\n") && Contains("−1\n") && Contains("NaN\n"));
  CHECK(s.caption.empty());
  CHECK_THAT(bar_chart(sample_bars()).caption, Contains("two standard errors"));
}

TEST_CASE("step chart: of more steps than pixels every peak stays", "[figure]") {
  step_chart_data data{"t", "key", "error", "ulp", std::vector<double>(5000, 0.0), {}, false};
  for (std::size_t i : {17u, 2500u, 4999u}) data.values[i] = 1;
  data.values[3333] = -1;
  const auto curve = parts_of<polyline>(step_chart(data)).front().points;
  CHECK(curve.size() <= 2 * 600);
  const double high = std::min_element(curve.begin(), curve.end(), [](point a, point b) { return a.y < b.y; })->y;
  const double low = std::max_element(curve.begin(), curve.end(), [](point a, point b) { return a.y < b.y; })->y;
  CHECK(std::count_if(curve.begin(), curve.end(), [&](point p) { return p.y == high; }) == 3);
  CHECK(std::count_if(curve.begin(), curve.end(), [&](point p) { return p.y == low; }) == 1);
  CHECK(std::is_sorted(curve.begin(), curve.end(), [](point a, point b) { return a.x < b.x; }));
  data.values[100] = NAN;
  CHECK(parts_of<polyline>(step_chart(data)).size() == 2);
  CHECK_THAT(step_chart(data).caption, Contains("1 value not finite"));
}

TEST_CASE("step chart: symlog shows small and large values", "[figure]") {
  const step_chart_data data{"t", "key", "error", "ulp", {1e-3, -1e-3, 2e-3, 1, 1000, -1000, 5e5}, {}, true};
  const auto curve = parts_of<polyline>(step_chart(data)).front().points;
  CHECK(curve[3].y - curve[4].y > 20);  // 1 and 1000
  CHECK(curve[2].y - curve[3].y > 20);  // 0.002 and 1
  CHECK_THAT(step_chart(data).caption, Contains("logarithmic beyond"));
}

TEST_CASE("softmax life: blocks in the order taken, rises marked", "[figure]") {
  const softmax_life_data life = sample_life(24);
  const scene s = softmax_life(life);
  std::int64_t rises = 0;
  for (std::size_t i = 1; i < life.blocks.size(); ++i) rises += life.blocks[i].max_after > life.blocks[i].max_before;
  CHECK(rises > 1);
  const auto lines = parts_of<line>(s);
  CHECK(std::count_if(lines.begin(), lines.end(), [](line const& l) { return l.dashed; }) == 5 * rises);
  CHECK_THAT(s.description, Contains(fmt::format("rises {} times", rises)));
  CHECK_THAT(words_of(s), Contains("2944\n"));
}

TEST_CASE("aligned bits: equal weights stand in one column, gaps are short, far bits are words", "[figure]") {
  aligned_bits_data d{"t", {{"a", false, "11", 0, 2, ""}, {"b", true, "1", -1, 1, ""}, {"c", false, "1011", -39, 2, ""}, {"d", false, "1", -200, 0, ""}}, -40, {}, {}, ""};
  const scene s = aligned_bits(d);
  const auto rows = parts_of<digits>(s);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].x + rows[0].pitch == Approx(rows[1].x));
  const auto grounds = parts_of<rectangle>(s);
  REQUIRE(grounds.size() == 4);
  CHECK(grounds[3].fill == role::cut);
  CHECK(grounds[3].x == Approx(grounds[2].x + grounds[2].width));
  CHECK(grounds[3].width == Approx(2 * rows[0].pitch));
  CHECK_THAT(words_of(s), Contains("⋯ 37 ⋯") && Contains("2 bits lost") && Contains("all lost; its top bit is 2⁻²⁰⁰") && Contains("quantum 2⁻⁴⁰"));
  CHECK(s.width < 600);
  for (int i = 0; i < 5; ++i) d.terms.insert(d.terms.begin() + 1, {"zero", false, "", 0, 0, ""});
  CHECK_THAT(words_of(aligned_bits(d)), Contains("⋯ 5 terms"));
  d.terms.erase(d.terms.begin() + 1, d.terms.begin() + 6);
  d.terms[2].bits = "1100";
  CHECK_THAT(words_of(aligned_bits(d)), Contains("only zeros cut"));
}
