#pragma once
#include <string_view>
#include <vector>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/machine/machine.hpp"

// Inner products written as numbers.

namespace stickybit::detail {

/// Operands that are zero but for a few.
struct sparse_term {
  std::size_t k;
  double a, b;
};
template <format In>
struct operands {
  std::vector<code<In>> a, b;
};
template <format In>
[[nodiscard]] operands<In> operands_of(std::size_t length, std::vector<sparse_term> const& terms) {
  operands<In> o{std::vector<code<In>>(length, code<In>::zero()), std::vector<code<In>>(length, code<In>::zero())};
  for (sparse_term const& t : terms) {
    o.a[t.k] = convert<In>(round_to<format::f32>({t.a, 0}));
    o.b[t.k] = convert<In>(round_to<format::f32>({t.b, 0}));
  }
  return o;
}

/// c + a·b on the unit.
template <format In>
[[nodiscard]] f32_code product_on(machine_unit const& unit, operands<In> const& o, f32_code c) {
  return inner_product<In>(unit, std::span<code<In> const>(o.a), std::span<code<In> const>(o.b), c);
}

/// c + a·b by FP32 fused multiply-adds in ascending order.
template <format In>
[[nodiscard]] f32_code sequential(operands<In> const& o, f32_code c) {
  for (std::size_t k = 0; k < o.a.size(); ++k) c = fma(convert<format::f32>(o.a[k]), convert<format::f32>(o.b[k]), c, subnormals::kept);
  return c;
}

}  // namespace stickybit::detail
