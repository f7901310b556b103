#include "stickybit/figure/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "page_style.hpp"
#include "stickybit/figure/svg.hpp"

namespace stickybit::figure {
namespace {

/// Escaped, with `code` between backticks; a lone backtick stays.
std::string inline_text(std::string_view words) {
  std::string html;
  while (true) {
    const auto open = words.find('`');
    const auto close = open == words.npos ? open : words.find('`', open + 1);
    if (close == words.npos) return html + escaped(words);
    html += fmt::format("{}<code>{}</code>", escaped(words.substr(0, open)), escaped(words.substr(open + 1, close - open - 1)));
    words.remove_prefix(close + 1);
  }
}

bool begins_like_a_number(std::string const& cell) {
  const std::string_view rest = std::string_view(cell).substr(cell.starts_with("−") ? std::string_view("−").size() : cell.starts_with('-') || cell.starts_with('+') ? 1 : 0);
  return cell.empty() || (!rest.empty() && rest[0] >= '0' && rest[0] <= '9');
}

/// A box that scrolls sideways. The keyboard can only scroll what it can reach, and a screen reader must say what that is.
std::string scroller(std::string_view name, std::string const& inside) {
  return fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{}</div>\n", escaped(name), inside);
}

class writer {
 public:
  std::string operator()(prose const& p) { return fmt::format("<p>{}</p>\n", inline_text(p.words)); }

  std::string operator()(page_figure const& f) {
    const int n = ++figures_;
    const std::string svg = to_svg(f.picture, {.standalone = false, .id = fmt::format("figure-{}", n)});
    std::string caption = fmt::format("<b>Figure {}. {}{}</b>", n, escaped(f.picture.title), f.picture.title.ends_with('.') ? "" : ".");
    for (std::string const& part : {f.caption, f.picture.caption})
      if (!part.empty()) caption += fmt::format(" {}", inline_text(part));
    const std::string wide = f.picture.width > 720 ? fmt::format(" class=\"wide\" style=\"--natural:{:.0f}px\"", f.picture.width) : "";
    return fmt::format("<figure{}>\n{}<figcaption>{}</figcaption>\n</figure>\n", wide, scroller(fmt::format("Figure {}, {}", n, f.picture.title), svg),
                       caption);
  }

  std::string operator()(preformatted const& p) { return scroller(p.name, fmt::format("<pre>{}</pre>\n", escaped(p.words))); }

  std::string operator()(table const& t) {
    std::vector<std::string> sides;
    for (std::size_t column = 0; column < t.head.size(); ++column) {
      const bool numbers = !t.rows.empty() && std::all_of(t.rows.begin(), t.rows.end(), [&](auto const& row) { return column < row.size() && begins_like_a_number(row[column]); });
      sides.emplace_back(numbers && column > 0 ? " class=\"n\"" : "");
    }
    std::string html = fmt::format("<table>\n<caption>{}</caption>\n<thead><tr>", inline_text(t.caption));
    for (std::size_t column = 0; column < t.head.size(); ++column) html += fmt::format("<th scope=\"col\"{}>{}</th>", sides[column], inline_text(t.head[column]));
    html += "</tr></thead>\n<tbody>\n";
    for (auto const& row : t.rows) {
      if (row.size() != t.head.size()) throw std::invalid_argument(fmt::format("table '{}': a row of {} cells under {} heads", t.caption, row.size(), t.head.size()));
      html += "<tr>";
      for (std::size_t column = 0; column < row.size(); ++column)
        html += fmt::format("<{0}{1}>{2}</{3}>", column == 0 ? "th scope=\"row\"" : "td", sides[column], inline_text(row[column]), column == 0 ? "th" : "td");
      html += "</tr>\n";
    }
    return scroller(t.caption, html + "</tbody>\n</table>\n");
  }

  std::string operator()(details const& d) {
    return fmt::format("<details>\n<summary>{}</summary>\n<div>\n{}</div>\n</details>\n", inline_text(d.summary), all(d.inside));
  }

  std::string all(std::vector<content> const& contents) {
    std::string html;
    for (content const& c : contents) html += std::visit(*this, static_cast<content::variant const&>(c));
    return html;
  }

 private:
  int figures_ = 0;
};

std::string head(page const& document) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      escaped(document.title), detail::page_style());
}

/// The contents, where there is more than one section.
std::string contents_of(page const& document) {
  if (document.sections.size() < 2) return {};
  std::string list = "<nav aria-label=\"Contents\">\n<ol>\n";
  for (std::size_t i = 0; i < document.sections.size(); ++i) list += fmt::format("<li><a href=\"#section-{}\">{}</a></li>\n", i + 1, inline_text(document.sections[i].heading));
  return list + "</ol>\n</nav>\n";
}

}  // namespace

std::string to_html(page const& document) {
  std::string html = head(document) + "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n" + std::string(detail::colour_switch);
  html += fmt::format("<h1>{}</h1>\n", inline_text(document.title));
  if (!document.summary.empty()) html += fmt::format("<p class=\"summary\">{}</p>\n", inline_text(document.summary));
  html += contents_of(document) + "</header>\n<main id=\"main\" tabindex=\"-1\">\n";
  writer write;
  for (std::size_t i = 0; i < document.sections.size(); ++i) {
    section const& s = document.sections[i];
    html += fmt::format("<section aria-labelledby=\"section-{0}\">\n<h2 id=\"section-{0}\">{1}</h2>\n{2}</section>\n", i + 1, inline_text(s.heading), write.all(s.contents));
  }
  html += "</main>\n";
  if (!document.footer.empty()) html += fmt::format("<footer>\n<p>{}</p>\n</footer>\n", inline_text(document.footer));
  return html + std::string(detail::print_script) + "</body>\n</html>\n";
}

}  // namespace stickybit::figure
