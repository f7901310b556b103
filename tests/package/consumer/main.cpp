// Halfway between two BF16 numbers: 1 + 2^-8 rounds to the even one, 1, and 1 + 3·2^-8 to 1 + 2^-6.
#include <stickybit/format/decode.hpp>
#include <stickybit/rounding/round_pack.hpp>

#include <cstdio>

using namespace stickybit;

namespace {

bf16_code to_bf16(f32_code c) {
  const decoded d = decode(c);
  return round_pack<format::bf16>({}, d.negative, d.e - traits_of(format::f32).fraction_bits(), d.significand);
}

bool rounds_to(std::uint32_t f32_bits, std::uint16_t bf16_bits) {
  const bf16_code result = to_bf16(f32_code::from_bits(f32_bits));
  std::printf("%08x -> %04x, expected %04x\n", f32_bits, unsigned{result.to_bits()}, unsigned{bf16_bits});
  return result == bf16_code::from_bits(bf16_bits);
}

}  // namespace

int main() {
  const bool down = rounds_to(0x3f808000, 0x3f80);
  const bool up = rounds_to(0xbf818000, 0xbf82);
  return down && up ? 0 : 1;
}
