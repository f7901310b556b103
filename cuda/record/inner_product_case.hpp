#pragma once
#include <array>
#include <cstdio>
#include <string>

#include "stickybit/format/code.hpp"

namespace stickybit::gpu {

/// The operands of one inner product, c + Σ_{k<16} a[k]·b[k]: a row of A, a column of B, an element of C.
struct inner_product_case {
  std::array<bf16_code, 16> a, b;
  f32_code c;
};

inline std::string hex(std::uint32_t bits, int digits) {
  char text[12];
  std::snprintf(text, sizeof text, "0x%0*x", digits, bits);
  return text;
}

/// "--a 0x3f80,... --b 0x3f80,... --c 0x00000000": what `stickybit explain dot` reads.
inline std::string operands_of(inner_product_case const& x) {
  std::string text;
  for (auto const* operand : {&x.a, &x.b}) {
    text += operand == &x.a ? "--a " : " --b ";
    for (std::size_t k = 0; k < operand->size(); ++k) text += (k == 0 ? "" : ",") + hex((*operand)[k].to_bits(), 4);
  }
  return text + " --c " + hex(x.c.to_bits(), 8);
}

}  // namespace stickybit::gpu
