#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stickybit::figure {

/// What a mark means. A backend turns it into a colour; a chart never names one.
enum class role : std::uint8_t {
  axis,       ///< axes and ticks
  grid,       ///< faint lines behind the marks
  kept,       ///< ground of bits that stay
  cut,        ///< ground of bits that are lost; hatched
  positive,   ///< a value above zero
  negative,   ///< a value below zero
  neutral,    ///< a mark without sign
  highlight,  ///< what the eye shall find first
  exact,      ///< the mathematical value
  label,      ///< text to be read
  muted,      ///< text that may be skipped
};
inline constexpr int role_count = 11;

[[nodiscard]] constexpr std::string_view name_of(role r) noexcept {
  constexpr std::string_view names[role_count] = {"axis", "grid", "kept", "cut", "positive", "negative", "neutral", "highlight", "exact", "label", "muted"};
  return names[int(r)];
}

/// A place in the picture, in pixels of the natural size; x grows to the right, y downwards.
struct point {
  double x, y;
};

struct rectangle {
  double x, y, width, height;
  role fill;
  bool outlined = false;  ///< only its edge is drawn
  std::string tooltip = {};
};

struct line {
  double x1, y1, x2, y2;
  role stroke;
  double width = 1;
  bool dashed = false;
  std::string tooltip = {};
};

struct polyline {
  std::vector<point> points;
  role stroke;
  double width = 1.5;
  std::string tooltip = {};
};

struct polygon {
  std::vector<point> points;
  role fill;
  std::string tooltip = {};
};

enum class anchor : std::uint8_t { start, middle, end };

/// One line of UTF-8 text; y is its base line.
struct text {
  double x, y;
  std::string words;
  anchor place = anchor::start;
  role fill = role::label;
  double size = 12;
  bool mono = false;
  bool bold = false;
  std::string tooltip = {};
};

/// ASCII characters, each in the middle of a cell of its own: the bits of a significand.
struct digits {
  double x, y;   ///< middle of the first cell; base line
  double pitch;  ///< width of a cell
  std::string characters;
  role fill = role::label;
  double size = 11;
};

/// Rows of equal cells, each of a level from −level_count (most negative) to level_count, or `missing`.
struct raster {
  static constexpr int level_count = 10;
  static constexpr std::int8_t missing = 127;
  double x, y, cell_width, cell_height;
  int columns;
  std::vector<std::int8_t> levels;  ///< row by row
};

using primitive = std::variant<rectangle, line, polyline, polygon, text, digits, raster>;

/// One picture, the same for every backend. Later parts are drawn over earlier ones.
struct scene {
  std::string title;        ///< a name, some words
  std::string description;  ///< what the picture shows, for those who do not see it
  std::string caption;      ///< what a reader must know of how it was drawn: scales, clipping, what was left out; may be empty
  double width, height;     ///< natural size, pixels
  std::vector<primitive> parts;

  void add(primitive&& part);
};

/// Where something is drawn, pixels.
struct box {
  double left, top, right, bottom;
};

/// The part's extent; that of text is estimated from above.
[[nodiscard]] box extent(primitive const& part);

/// Width of UTF-8 text in pixels, estimated from above for common fonts; a control character or a broken byte counts as one letter.
[[nodiscard]] double text_width(std::string_view words, double size, bool mono = false, bool bold = false);

/// The words, cut with "…" so that they are not wider than `width` pixels.
[[nodiscard]] std::string shortened(std::string_view words, double width, double size, bool mono = false, bool bold = false);

/// @throws std::invalid_argument naming the scene if a coordinate is not finite, or a raster's levels do not fill its rows
void check(scene const& picture);

/// A small triangle whose tip is at (x, y); `degrees` is where the tip points: 0 right, 90 down.
[[nodiscard]] polygon triangle_mark(double x, double y, double size, double degrees, role fill, std::string tooltip = {});

/// A diamond about (x, y), `size` pixels from its middle to each corner.
[[nodiscard]] polygon diamond_mark(double x, double y, double size, role fill, std::string tooltip = {});

}  // namespace stickybit::figure
