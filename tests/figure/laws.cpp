// What holds of every picture, of ordinary data and of data that is empty, single, zero, infinite, NaN or huge.
#include <limits>

#include "drawn.hpp"
#include "samples.hpp"
#include "stickybit/figure/svg.hpp"
#include "stickybit/figure/tikz.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit::figure;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double largest = std::numeric_limits<double>::max(), smallest = std::numeric_limits<double>::denorm_min();

const std::vector<std::vector<double>> hard_values = {{},
                                                      {0},
                                                      {1.5},
                                                      {-3e-310},
                                                      {0, 0, 0, 0},
                                                      {not_a_number},
                                                      {infinity, -infinity, not_a_number, 2},
                                                      {largest, -largest},
                                                      {largest, largest, 1},
                                                      {smallest, -smallest, 0},
                                                      {1, 1 + 1e-15, 1},
                                                      {1e300, 1e-300, -1},
                                                      {not_a_number, 1, not_a_number, 2, 3, infinity}};

void check_laws(scene const& s) {
  CAPTURE(s.title, s.description, words_of(s));
  CHECK_NOTHROW(check(s));
  CHECK(outside(s) == std::vector<std::string>{});
  CHECK(overlapping_texts(s) == std::vector<std::string>{});
  CHECK(!s.title.empty());
  CHECK(!s.description.empty());
  for (bool standalone : {true, false}) {
    const std::string svg = to_svg(s, {.standalone = standalone, .id = "a"});
    CHECK(xml_fault(svg) == "");
    CHECK(svg.find("=\"nan") == svg.npos);
    CHECK(svg.find("=\"inf") == svg.npos);
  }
  CHECK_NOTHROW(to_tikz(s));
}

bar_chart_data bars_of(std::vector<double> const& values, bool with_errors) {
  bar_chart_data d{"bars", "mean", "ulp", {}};
  for (double v : values) d.bars.push_back(with_errors ? bar{"a name that is too long for the column in which names are set", v, std::abs(v), std::abs(v), true} : bar{"x", v});
  return d;
}

}  // namespace

TEST_CASE("figure: ordinary pictures are inside their frame, texts apart, SVG well-formed", "[figure]") {
  for (int n : {0, 1, 4, 16, 32}) check_laws(aligned_bits(sample_bits(std::max(n, 3))));
  check_laws(bar_chart(sample_bars()));
  for (int n : {0, 1, 2, 5, 700, 6000}) check_laws(step_chart(sample_steps(n)));
  for (int n : {0, 1, 2, 24, 64, 65, 4096}) check_laws(softmax_life(sample_life(n)));
  for (auto [rows, columns] : {std::pair{1, 1}, {3, 2}, {1, 4096}, {4096, 1}, {96, 96}, {97, 95}, {384, 128}}) check_laws(heat_map(sample_map(rows, columns).data));
  check_laws(number_line(sample_rounding()));
}

TEST_CASE("figure: charts of values that are empty, single, zero, infinite, NaN or huge", "[figure]") {
  for (auto const& values : hard_values) {
    check_laws(bar_chart(bars_of(values, false)));
    check_laws(bar_chart(bars_of(values, true)));
    for (bool symlog : {false, true}) check_laws(step_chart({"steps", "key", "error", "ulp", values, {{0, "first"}, {1, "second"}, {-1, "none"}, {99, "none"}}, symlog}));
    check_laws(heat_map({"map", "row", "column", "ulp", 1, std::int64_t(values.size()), values}));
    check_laws(heat_map({"map", "row", "column", "ulp", std::int64_t(values.size()), 1, values, not_a_number}));
    softmax_life_data life{"life", {}};
    for (double v : values) life.blocks.push_back({std::int64_t(1) << 40, 128, -infinity, v, v, v, v, v});
    check_laws(softmax_life(life));
  }
}

TEST_CASE("figure: bit pictures of hundreds of binades, no rows, no bits, gaps", "[figure]") {
  check_laws(aligned_bits({"none", {}, 0, {}, {}, ""}));
  const std::string ones(64, '1');
  for (int top : {1000, 64, 26, 0, -25, -26, -30, -46, -149, -1000})
    for (int quantum : {-25, 0, -1000}) {
      aligned_bits_data d{"far", {}, quantum, {}, {}, "a decision that is said in so many words that they do not fit into the picture, however wide it may be, and so must be cut short"};
      d.terms.push_back({"wide", true, ones, top, std::clamp(top - quantum + 1, 0, 64), ""});
      d.terms.push_back({"one", false, "1", -25, 1, ""});
      d.terms.push_back({"zero", false, "", 7, 3, ""});
      d.terms.push_back({"a label that is much too long for its column <&>\"'\x01\xff", false, "101", 3, 99, "a note that is much too long for its column, and then some"});
      d.sum = bit_row{"sum", false, ones, top, 24, ""};
      check_laws(aligned_bits(d));
    }
}

TEST_CASE("figure: the laws find what is wrong", "[figure]") {
  scene s{"bad", "d", "", 100, 50, {}};
  s.add(text{10, 20, "one"});
  CHECK(outside(s).empty());
  s.add(text{12, 22, "two"});
  CHECK(overlapping_texts(s).size() == 1);
  s.add(line{0, 0, 101, 0, role::axis});
  CHECK(outside(s).size() == 1);
  s.add(line{0, 0, not_a_number, 0, role::axis});
  CHECK_THROWS_WITH(to_svg(s), Catch::Matchers::Contains("bad"));
  for (const char* xml : {"<a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "<a>&</a>", "<a>1 < 2</a>", "<a/><a/>", "<a>\x01</a>", "<a b=\"<\"/>", "<a"}) {
    CAPTURE(xml);
    CHECK(xml_fault(xml) != "");
  }
  CHECK(xml_fault("<?xml version=\"1.0\"?>\n<a b=\"1\"><c/>&amp;</a>") == "");
}
