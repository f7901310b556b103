#pragma once
#include <cstdint>

namespace stickybit {

/// The random bits of one stochastic rounding: the low `count` bits of `bits`, 0 ≤ count ≤ 32.
struct random_word {
  std::uint32_t bits = 0;
  int count = 0;
};

/// Does the magnitude grow by one unit? The first `count` bits of what is cut are added to the random ones; a carry out says
/// yes. Over all random words that is floor(2^count · tail) of 2^count, tail in [0, 1) of a unit: the probability is the tail
/// where it has at most `count` bits, else the tail cut to them, low by less than 2^-count. Nothing cut, or count 0: never.
/// @source PTX ISA, cvt, `.rs`: the carry of adding the random bits to the discarded ones decides
[[nodiscard]] constexpr bool carries_out(std::uint64_t sig, int drop, random_word random) noexcept {
  if (drop <= 0 || random.count <= 0) return false;
  const std::uint64_t cut = drop >= 64 ? sig : sig & ((std::uint64_t{1} << drop) - 1);
  const int extra = drop - random.count;  // bits of the tail that no random bit meets
  const std::uint64_t first = extra >= 64 ? 0 : extra >= 0 ? cut >> extra : cut << -extra;
  const std::uint64_t one = std::uint64_t{1} << random.count;
  return first + (random.bits & (one - 1)) >= one;
}

/// A seeded stream of random words: the same seed gives the same words on every machine.
/// @source SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
class random_words {
 public:
  explicit constexpr random_words(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] constexpr random_word operator()(int count = 32) noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return {std::uint32_t((z ^ (z >> 31)) >> 32), count};
  }

 private:
  std::uint64_t state_;
};

}  // namespace stickybit
