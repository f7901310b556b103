#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace stickybit {

/// Random numbers that are the same on every platform: integers only, and divisions by powers of two.
/// xoshiro256**, its state filled by splitmix64 from the seed.
/// @source D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021; prng.di.unimi.it
class study_random {
 public:
  explicit constexpr study_random(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9, moved = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= moved;
    state_[3] = rotated(state_[3], 45);
    return result;
  }

  /// In [0, 1), a multiple of 2^-32.
  constexpr double uniform() noexcept { return double(next() >> 32) * 0x1p-32; }

  /// The sum of twelve uniform numbers, less 6: mean 0, variance 1, close to a normal number and never beyond ±6. Exact.
  constexpr double normal() noexcept {
    std::uint64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += next() >> 32;
    return double(sum) * 0x1p-32 - 6;
  }

  /// In [0, n), n below 2^32. The least significant values are favoured by at most n·2^-32.
  constexpr std::int64_t below(std::int64_t n) noexcept { return std::int64_t(((next() >> 32) * std::uint64_t(n)) >> 32); }

  /// 0 … n − 1 in random order.
  [[nodiscard]] std::vector<std::int64_t> permutation(std::int64_t n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = below(i + 1);
      order[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>(at)];
      order[static_cast<std::size_t>(at)] = i;
    }
    return order;
  }

 private:
  static constexpr std::uint64_t rotated(std::uint64_t x, int by) noexcept { return (x << by) | (x >> (64 - by)); }
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace stickybit
