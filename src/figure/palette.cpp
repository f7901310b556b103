#include "stickybit/figure/palette.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace stickybit::figure {
namespace {

/// Light and dark, in the order of `role`.
constexpr std::array<std::array<rgb, 2>, role_count> colours{{
    {0x6b7077, 0x8f959f},  // axis
    {0xe4e0d7, 0x2d3138},  // grid
    {0xd3e6e1, 0x1d4740},  // kept
    {0xf6dfb4, 0x55401a},  // cut
    {0xb23413, 0xff9472},  // positive
    {0x1a5ca8, 0x82b8ff},  // negative
    {0x7c818a, 0x8a909b},  // neutral
    {0x835200, 0xffc95c},  // highlight
    {0x6a2c91, 0xd9b0f7},  // exact
    {0x1c1e22, 0xe9e6df},  // label
    {0x565b64, 0xabb0ba},  // muted
}};

double luminance(rgb colour) noexcept {
  const auto channel = [&](int shift) {
    const double c = double(colour >> shift & 0xff) / 255;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0);
}

}  // namespace

rgb colour_of(role r, scheme s) noexcept { return colours[std::size_t(r)][std::size_t(s)]; }
rgb paper(scheme s) noexcept { return s == scheme::light ? 0xfdfcf8 : 0x16181c; }
rgb panel(scheme s) noexcept { return s == scheme::light ? 0xf5f2ea : 0x1e2126; }
rgb edge(scheme s) noexcept { return s == scheme::light ? 0xd6d1c4 : 0x3a3f48; }

double contrast_ratio(rgb a, rgb b) noexcept {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

}  // namespace stickybit::figure
