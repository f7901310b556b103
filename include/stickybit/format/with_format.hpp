#pragma once
#include <cstdint>

#include "stickybit/format/code.hpp"
#include "stickybit/format/format.hpp"

namespace stickybit {

/// Here a format that is data becomes one that is a type: f.template operator()<F>(). FP64, of which there are no codes, counts as FP32.
template <class F>
constexpr auto with_format(format of, F&& f) {
  switch (of) {
    case format::bf16: return f.template operator()<format::bf16>();
    case format::f16: return f.template operator()<format::f16>();
    case format::tf32: return f.template operator()<format::tf32>();
    case format::e4m3fn: return f.template operator()<format::e4m3fn>();
    case format::e5m2: return f.template operator()<format::e5m2>();
    case format::e4m3fnuz: return f.template operator()<format::e4m3fnuz>();
    case format::e5m2fnuz: return f.template operator()<format::e5m2fnuz>();
    case format::e8m0: return f.template operator()<format::e8m0>();
    case format::e2m1: return f.template operator()<format::e2m1>();
    case format::e3m2: return f.template operator()<format::e3m2>();
    case format::e2m3: return f.template operator()<format::e2m3>();
    case format::f32:
    case format::f64: break;
  }
  return f.template operator()<format::f32>();
}

/// The code of these bits; those that are not the format's are cut off.
template <format F>
[[nodiscard]] constexpr code<F> code_from(std::uint32_t bits) noexcept {
  return code<F>::from_bits(typename code<F>::bits_type(bits));
}

}  // namespace stickybit
