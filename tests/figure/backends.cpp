// SVG, TikZ and colours: escapes, structure, contrast.
#include "drawn.hpp"
#include "samples.hpp"
#include "stickybit/figure/palette.hpp"
#include "stickybit/figure/svg.hpp"
#include "stickybit/figure/tikz.hpp"
#include "support/catch.hpp"

using namespace stickybit::figure;
using Catch::Matchers::Contains;

namespace {

const std::string hostile = "<b>&amp; \"q\" 'a' \x01\x7f \xff\xc3 \xed\xa0\x80 \xef\xbf\xbf ]]> — é";

scene one_of_each(std::string const& words) {
  scene s{words, words, words, 200, 100, {}};
  s.add(rectangle{0, 0, 10, 10, role::cut, false, words});
  s.add(rectangle{0, 0, 10, 10, role::kept, true, words});
  s.add(line{0, 0, 10, 10, role::axis, 1, true, words});
  s.add(polyline{{{0, 0}, {10, 10}, {20, 0}}, role::neutral, 1.5, words});
  s.add(triangle_mark(50, 50, 8, 90, role::highlight, words));
  s.add(text{10, 50, words, anchor::end, role::label, 12, true, true, words});
  s.add(digits{10, 60, 10, "1<0&", role::label, 11});
  s.add(raster{0, 70, 5, 5, 3, {10, 10, -10, 0, raster::missing, 1}});
  return s;
}

/// Balance of braces outside escapes and comments; −1 if it ever falls below zero.
int brace_balance(std::string const& tex) {
  int depth = 0;
  for (std::size_t i = 0; i < tex.size(); ++i) {
    if (tex[i] == '\\') ++i;
    else if (tex[i] == '%') i = tex.find('\n', i);
    else if (tex[i] == '{') ++depth;
    else if (tex[i] == '}' && --depth < 0) return -1;
  }
  return depth;
}

}  // namespace

TEST_CASE("svg: hostile text stays text, and forbidden characters go", "[figure]") {
  for (bool standalone : {true, false}) CHECK(xml_fault(to_svg(one_of_each(hostile), {.standalone = standalone})) == "");
  CHECK(escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escaped("\x01|\xff|\xc3|\xed\xa0\x80") == "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escaped("é × 2⁻²⁵ 𝄞") == "é × 2⁻²⁵ 𝄞");
}

TEST_CASE("svg: named for screen readers by ids that are the caller's", "[figure]") {
  const std::string svg = to_svg(one_of_each("Name"), {.standalone = false, .id = "fig-7"});
  for (const char* part : {"role=\"img\"", "aria-labelledby=\"fig-7-title fig-7-desc\"", "<title id=\"fig-7-title\">Name</title>", "<desc id=\"fig-7-desc\">Name Name</desc>",
                           "viewBox=\"0 0 200 100\"", "url(#fig-7-hatch)", "url(#fig-7-stripe)"})
    CHECK_THAT(svg, Contains(part));
  CHECK(svg.find("<style") == svg.npos);
  for (const char* id : {"", "a b", "a\"", "é"}) CHECK_THROWS_AS(to_svg(one_of_each("Name"), {.id = id}), std::invalid_argument);
}

TEST_CASE("svg: a file has its own colours, light and dark, and no mark has one", "[figure]") {
  const std::string svg = to_svg(one_of_each("Name"));
  for (const char* part : {"xmlns=\"http://www.w3.org/2000/svg\"", "<style>", "prefers-color-scheme:dark", "--positive:#b23413", "--positive:#ff9472"}) CHECK_THAT(svg, Contains(part));
  const std::string marks = to_svg(one_of_each("Name"), {.standalone = false});
  for (std::size_t at = marks.find("=\"#"); at != marks.npos; at = marks.find("=\"#", at + 1)) FAIL("a colour at " << marks.substr(at - 10, 30));
  for (int r = 0; r < role_count; ++r) CHECK_THAT(figure_css(), Contains(fmt::format(".f-{0}{{fill:var(--{0})}}", name_of(role(r)))));
}

TEST_CASE("svg: a raster's equal neighbours are one run, a level one path", "[figure]") {
  scene s{"t", "d", "", 400, 400, {}};
  s.add(raster{0, 0, 4, 4, 96, std::vector<std::int8_t>(96 * 96, 5)});
  const std::string svg = to_svg(s);
  CHECK(svg.size() < 8000);
  CHECK_THAT(svg, Contains("M0 380h384v4H0z"));
  s.parts.back() = raster{0, 0, 4, 4, 4, std::vector<std::int8_t>(6, 5)};
  CHECK_THROWS_AS(to_svg(s), std::invalid_argument);
}

TEST_CASE("tikz: specials are escaped, mathematics is TeX, the rest is ASCII", "[figure]") {
  CHECK(tex_escaped("a_b & 5% $x$ #1 {y} ~ ^ \\") == "a\\_b \\& 5\\% \\$x\\$ \\#1 \\{y\\} \\textasciitilde{} \\textasciicircum{} \\textbackslash{}");
  CHECK(tex_escaped("1.5 × 2⁻²⁵ · Σ ≈ −3") == "1.5 $\\times$ 2$^{-25}$ $\\cdot$ $\\Sigma$ $\\approx$ $-$3");
  CHECK(tex_escaped("x²") == "x$^{2}$");
  CHECK(tex_escaped("\xff\x01…") == "??\\ldots{}");
  CHECK(tex_escaped("漢") == "?");
}

TEST_CASE("tikz: braces and environments balance, colours are defined before use", "[figure]") {
  for (scene const& s : {one_of_each(hostile), one_of_each("50 % of {x}\nnext line"), aligned_bits(sample_bits(16)), number_line(sample_rounding()), heat_map(sample_map(5, 7).data)}) {
    const std::string tikz = to_tikz(s);
    CAPTURE(tikz.substr(0, 3000));
    CHECK(brace_balance(tikz) == 0);
    CHECK(std::all_of(tikz.begin(), tikz.end(), [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; }));
    const auto begin = tikz.find("\\begin{tikzpicture}"), end = tikz.find("\\end{tikzpicture}");
    REQUIRE(begin < end);
    CHECK(tikz.find("\\begin", begin + 1) == tikz.npos);
    for (int r = 0; r < role_count; ++r) CHECK(tikz.find(fmt::format("\\definecolor{{stickybit-{}}}{{HTML}}", name_of(role(r)))) < begin);
    // Each line of the picture is a statement.
    std::string_view body = std::string_view(tikz).substr(begin, end - begin);
    body.remove_prefix(body.find('\n') + 1);
    for (std::size_t at = 0; at < body.size();) {
      const auto line_end = body.find('\n', at);
      CHECK(body[line_end - 1] == ';');
      at = line_end + 1;
    }
  }
}

TEST_CASE("tikz: lost and negative show without colour", "[figure]") {
  scene s{"t", "d", "", 100, 100, {}};
  s.add(rectangle{10, 20, 12, 4, role::cut});
  CHECK_THAT(to_tikz(s), Contains("draw=stickybit-muted, line width=0.24pt] (10,22.5) -- (12.5,20) (13.5,24) -- (17.5,20) (18.5,24) -- (22,20.5);"));
  s.parts.back() = raster{0, 0, 4, 4, 3, {1, -1, -2}};
  CHECK_THAT(to_tikz(s), Contains("draw=white, line width=0.3pt] (4,1) -- (12,1);"));
}

TEST_CASE("palette: text has a contrast of 4.5, marks of 3, on paper and panel, light and dark", "[figure]") {
  CHECK(contrast_ratio(0x000000, 0xffffff) == Approx(21));
  CHECK(contrast_ratio(0x777777, 0xffffff) == Approx(4.48).margin(0.01));  // @source WebAIM's contrast checker
  for (scheme s : {scheme::light, scheme::dark}) {
    for (rgb ground : {paper(s), panel(s)}) {
      for (role r : {role::label, role::muted, role::positive, role::negative, role::highlight, role::exact}) {
        CAPTURE(name_of(r), int(s));
        CHECK(contrast_ratio(colour_of(r, s), ground) >= 4.5);
      }
      for (role r : {role::axis, role::neutral}) CHECK(contrast_ratio(colour_of(r, s), ground) >= 3);
    }
    for (role ground : {role::kept, role::cut}) CHECK(contrast_ratio(colour_of(role::label, s), colour_of(ground, s)) >= 4.5);
    CHECK(contrast_ratio(colour_of(role::label, s), colour_of(role::label, s)) == Approx(1));
  }
}
