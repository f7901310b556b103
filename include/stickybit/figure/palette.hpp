#pragma once
#include <cstdint>
#include <string_view>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

enum class scheme : std::uint8_t { light, dark };

/// A colour as 0xRRGGBB.
using rgb = std::uint32_t;

/// The colour of a role. Positive is vermilion, negative blue: told apart with every common colour deficiency; charts say the sign in
/// another way too. Text roles have a contrast of 4.5 and more against the paper and the grounds `kept` and `cut`, marks of 3.
/// @source WCAG 2.2, success criteria 1.4.3 and 1.4.11
[[nodiscard]] rgb colour_of(role r, scheme s) noexcept;

/// What everything is drawn on.
[[nodiscard]] rgb paper(scheme s) noexcept;

/// The page's other colours: a panel behind figures, preformatted text and table heads, and its edges.
[[nodiscard]] rgb panel(scheme s) noexcept;
[[nodiscard]] rgb edge(scheme s) noexcept;

/// (lighter + 0.05) / (darker + 0.05) of the relative luminances: 1 to 21.  @source WCAG 2.2, "contrast ratio"
[[nodiscard]] double contrast_ratio(rgb a, rgb b) noexcept;

}  // namespace stickybit::figure
