#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "functions.hpp"

namespace testing {

/// One binade of one function on an H200: 2^23 operands with consecutive codes.
struct binade {
  char const* name;
  special_function function;
  std::uint32_t first;        ///< code of the first operand
  std::uint64_t fingerprint;  ///< of the H200's results
};

/// FNV-1a over 32-bit words.
class fingerprint {
 public:
  constexpr void add(std::uint32_t word) noexcept { state_ = (state_ ^ word) * 0x100000001b3; }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

// Recorded on an H200 (driver 580.159.04, CUDA 13.0) with every operand of the binade; the fingerprints are of those records, and the
// tests of the records check them. In lg2_eN, N is the biased exponent.
inline constexpr std::array binades{
    binade{"ex2_025_05", &stickybit::ex2, 0x3e800000, 0xb94e8e67fa1d559d}, binade{"ex2_05_1", &stickybit::ex2, 0x3f000000, 0x1938ae1ca053e4e7},
    binade{"ex2_1_2", &stickybit::ex2, 0x3f800000, 0x3f0f3852f2fa7edb},    binade{"ex2_m05_m1", &stickybit::ex2, 0xbf000000, 0x86cbd167bc4daa17},
    binade{"ex2_m1_m2", &stickybit::ex2, 0xbf800000, 0xbf4f30a37a9d5b98},  binade{"lg2_e1", &stickybit::lg2, 0x00800000, 0x5eaf294006c06335},
    binade{"lg2_e64", &stickybit::lg2, 0x20000000, 0xa474d856e998de6e},    binade{"lg2_e100", &stickybit::lg2, 0x32000000, 0x91a83d6de347f7bb},
    binade{"lg2_e120", &stickybit::lg2, 0x3c000000, 0x3319f5e87706e1c7},   binade{"lg2_e124", &stickybit::lg2, 0x3e000000, 0xa8446126fce995a5},
    binade{"lg2_e125", &stickybit::lg2, 0x3e800000, 0xee8547046f8f0ea9},   binade{"lg2_e126", &stickybit::lg2, 0x3f000000, 0xf8884f097b12e53d},
    binade{"lg2_e127", &stickybit::lg2, 0x3f800000, 0x5ca43d6b0d176848},   binade{"lg2_e128", &stickybit::lg2, 0x40000000, 0x68a8fcc691e51fd5},
    binade{"lg2_e129", &stickybit::lg2, 0x40800000, 0x29c3023545145ed1},   binade{"lg2_e140", &stickybit::lg2, 0x46000000, 0x0c48502104002961},
    binade{"lg2_e200", &stickybit::lg2, 0x64000000, 0x702c72289bd0729d},   binade{"lg2_e254", &stickybit::lg2, 0x7f000000, 0xf5e7c4e33a00729d},
    binade{"rcp_1_2", &stickybit::rcp, 0x3f800000, 0xfa72a6c698274964},    binade{"rsqrt_1_2", &stickybit::rsqrt, 0x3f800000, 0x0c40b0bdf554807c},
    binade{"rsqrt_2_4", &stickybit::rsqrt, 0x40000000, 0xac1e22b0ce75548b},
};

}  // namespace testing
