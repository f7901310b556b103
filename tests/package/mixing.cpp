// Codes of two formats do not mix, and neither do codes and numbers: with any MIX_ but MIX_none this must not compile.
#include "stickybit/format/code.hpp"

int main() {
  auto narrow = stickybit::bf16_code::from_bits(0x3f80);
  auto wide = stickybit::f32_code::from_bits(0x3f800000);
#if defined MIX_none
  wide = stickybit::widen(narrow);
  narrow = narrow.negated();
  return wide == stickybit::widen(narrow);
#elif defined MIX_assign_format
  narrow = wide;
#elif defined MIX_compare_formats
  return narrow == wide;
#elif defined MIX_convert_to_number
  const float number = wide;
  return number > 0;
#elif defined MIX_construct_from_number
  narrow = stickybit::bf16_code(0x3f80);
#elif defined MIX_widen_twice
  return stickybit::widen(wide) == wide;
#endif
}
