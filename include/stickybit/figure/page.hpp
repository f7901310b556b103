#pragma once
#include <string>
#include <variant>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// A paragraph; `between backticks` is set as code.
struct prose {
  std::string words;
};

/// A picture with a number and a caption: what the reader shall see in it. The scene's own caption follows.
struct page_figure {
  scene picture;
  std::string caption;
};

/// Text set as it is, in a box that scrolls when it is too wide; `name` tells what it is.
struct preformatted {
  std::string name, words;
};

/// A table. Columns whose cells all begin like a number are set to the right; the first column heads its rows.
struct table {
  std::string caption;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< each as long as head
};

struct content;

/// Something to be opened by those who want it; printed open.
struct details {
  std::string summary;
  std::vector<content> inside;
};

struct content : std::variant<prose, page_figure, preformatted, table, details> {
  using variant::variant;
};

struct section {
  std::string heading;
  std::vector<content> contents;
};

struct page {
  std::string title;
  std::string summary;  ///< one paragraph under the title; may be empty
  std::vector<section> sections;
  std::string footer;   ///< who made it, of what; may be empty
};

/// One HTML file that needs nothing else: no network, no other file, and no script but the one that opens `details` to print.
/// Light or dark as the reader prefers, or as the page's own switch says. Figures, tables and preformatted text that are too wide scroll in
/// boxes of their own, which the keyboard reaches.
/// @throws std::invalid_argument where a table's row and head differ in length, or as check(scene) does
[[nodiscard]] std::string to_html(page const& document);

}  // namespace stickybit::figure
