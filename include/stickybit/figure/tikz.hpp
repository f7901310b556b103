#pragma once
#include <string>
#include <string_view>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// The picture as a tikzpicture for LaTeX with \usepackage{tikz}; one pixel is 0.6 pt. Pure ASCII: mathematical characters become
/// TeX, others that have no TeX here become '?'. The colours are defined at its top as stickybit-<role>; redefine them there.
/// Tooltips are left out; title, description and caption are comments.
/// @throws std::invalid_argument as check(scene) does
[[nodiscard]] std::string to_tikz(scene const& picture);

/// Text for LaTeX: the ten special characters escaped, mathematical characters as TeX.
[[nodiscard]] std::string tex_escaped(std::string_view words);

}  // namespace stickybit::figure
