#pragma once
#include <string>
#include <string_view>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// Where an SVG goes.
struct svg_use {
  bool standalone = true;     ///< a file with its own colours, light or dark as the reader prefers; else a part of a page that has figure_css()
  std::string id = "figure";  ///< begins every id in it: letters, digits, '-'; one page gives each picture its own
};

/// The picture as SVG, well-formed XML whatever its texts hold. It has a viewBox and takes the width it is given.
/// @throws std::invalid_argument as check(scene) does, or naming an id with other characters
[[nodiscard]] std::string to_svg(scene const& picture, svg_use const& use = {});

/// Style rules of the pictures in a page: classes only, colours by the custom properties of colour_variables().
[[nodiscard]] std::string figure_css();

/// "--axis:#6b7280;--grid:…": the custom properties of one scheme.
[[nodiscard]] std::string colour_variables(bool dark);

/// Text for XML or HTML: & < > " ' escaped; characters that XML forbids and broken UTF-8 become U+FFFD.
[[nodiscard]] std::string escaped(std::string_view words);

}  // namespace stickybit::figure
