// The HTML page: complete in itself, structured, escaped. The browser test looks at it as a person does.
#include "stickybit/figure/page.hpp"

#include <regex>

#include "drawn.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

using namespace stickybit::figure;
using Catch::Matchers::Contains;

namespace {

page small_page() {
  page p{"Title <1>", "Sum & more", {}, "Made by `us`"};
  p.sections.push_back({"First", {prose{"A `code <x>` and a lone ` mark"}, page_figure{bar_chart(sample_bars()), "A caption."}, preformatted{"Log", "<&>\n"}}});
  p.sections.push_back({"Second", {details{"More", {page_figure{number_line(sample_rounding()), ""}, table{"T", {"name", "value"}, {{"a", "−1"}, {"b", "+2"}}}}}}});
  return p;
}

std::size_t count_of(std::string const& html, std::string const& pattern) {
  const std::regex expression(pattern);
  return std::size_t(std::distance(std::sregex_iterator(html.begin(), html.end(), expression), std::sregex_iterator()));
}

}  // namespace

TEST_CASE("page: needs nothing from elsewhere", "[figure]") {
  const std::string html = to_html(small_page());
  CHECK(count_of(html, "(src|href|action|data|srcset)=\"(?!#|data:,)") == 0);
  CHECK(count_of(html, "@import|https?://|url\\((?!#)") == 0);
  CHECK_THAT(html, Contains("default-src 'none'"));
  for (const char* storage : {"localStorage", "sessionStorage", "cookie", "fetch("}) CHECK(html.find(storage) == html.npos);
}

TEST_CASE("page: landmarks, headings, names, scopes", "[figure]") {
  const std::string html = to_html(small_page());
  for (const char* part : {"<!doctype html>", "<html lang=\"en\">", "<a class=\"skip\" href=\"#main\">", "<main id=\"main\"", "<nav aria-label=\"Contents\">", "<header>", "<footer>",
                           "<h1>Title &lt;1&gt;</h1>", "<h2 id=\"section-1\">First</h2>", "<caption>T</caption>", "<th scope=\"col\">name</th>", "<th scope=\"col\" class=\"n\">value</th>",
                           "<th scope=\"row\">a</th>", "<td class=\"n\">−1</td>", "<summary>More</summary>", "<pre>&lt;&amp;&gt;\n</pre>", "<code>code &lt;x&gt;</code> and a lone ` mark"})
    CHECK_THAT(html, Contains(part));
  CHECK(count_of(html, "<svg ") == 2);
  CHECK(count_of(html, "id=\"figure-1-title\"") == 1);
  CHECK(count_of(html, "id=\"figure-2-title\"") == 1);
  CHECK(count_of(html, "class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"[^\"]+\"") == 4);
  CHECK_THAT(html, Contains("<b>Figure 2. Rounding to bf16.</b>"));
}

TEST_CASE("page: prints open and light", "[figure]") {
  const std::string html = to_html(small_page());
  CHECK_THAT(html, Contains("beforeprint") && Contains("details::details-content") && Contains("break-inside:avoid"));
}

TEST_CASE("page: empty ones work, and a crooked table is refused", "[figure]") {
  CHECK_THAT(to_html(page{"T", "", {}, ""}), Contains("<main") && !Contains("<nav") && !Contains("<footer"));
  page p{"T", "", {{"S", {table{"crooked", {"a", "b"}, {{"1"}}}}}}, ""};
  CHECK_THROWS_WITH(to_html(p), Contains("crooked"));
}
