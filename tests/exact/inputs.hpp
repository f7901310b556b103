#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "stickybit/exact/rows.hpp"
#include "stickybit/format/code.hpp"

// Random heads of attention for the tests of this stage.

namespace stickybit_test {

using stickybit::bf16_code;
using stickybit::bf16_rows;
using stickybit::mask_alignment;

/// Cut to BF16: exact for what tests write by hand.
inline bf16_code bf16(double x) { return bf16_code::from_bits(std::uint16_t(std::bit_cast<std::uint32_t>(float(x)) >> 16)); }

/// A matrix with room between the rows, full of NaN that nobody may read.
struct matrix {
  std::size_t rows, columns, stride;
  std::vector<bf16_code> codes;

  matrix(std::size_t r, std::size_t c) : rows(r), columns(c), stride(c + 3), codes(r * (c + 3), bf16_code::nan()) {}
  bf16_code& at(std::size_t i, std::size_t j) { return codes[i * stride + j]; }
  [[nodiscard]] bf16_code at(std::size_t i, std::size_t j) const { return codes[i * stride + j]; }
  [[nodiscard]] bf16_rows view() const { return {codes.data(), rows, columns, stride}; }
  template <class Make>
  void fill(Make make) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) at(i, j) = make();
  }
};

struct head {
  matrix q, k, v;
  double scale;
  mask_alignment mask;
};

enum class kind { gaussian, large_scores, ties, one_hot, cancelling_v, tiny_v, huge_cancelling_scores, all_exponents, wide_exponents };
inline constexpr kind all_kinds[] = {kind::gaussian, kind::large_scores, kind::ties, kind::one_hot, kind::cancelling_v,
                                     kind::tiny_v, kind::huge_cancelling_scores, kind::all_exponents, kind::wide_exponents};
constexpr std::string_view name_of(kind what) {
  constexpr std::string_view names[] = {"gaussian", "large scores", "ties", "one-hot rows", "cancelling V",
                                        "tiny V", "huge cancelling scores", "all exponents", "wide exponents"};
  return names[int(what)];
}

class head_maker {
 public:
  explicit head_maker(std::uint64_t seed) : random_(seed) {}

  head make(kind what) {
    const std::size_t s = pick(1, 7), keys = pick(1, 5) == 1 ? pick(33, 75) : pick(1, 20), d = pick(1, 20), d_v = pick(1, 6);
    constexpr mask_alignment masks[] = {mask_alignment::none, mask_alignment::bottom_right, mask_alignment::top_left};
    head h{matrix(s, d), matrix(keys, d), matrix(keys, d_v), pick(0, 1) ? 1 / std::sqrt(double(d)) : 0.125, masks[pick(0, 2)]};
    const auto normal = [&] { return bf16(normal_(random_)); };
    h.q.fill(normal);
    h.k.fill(normal);
    h.v.fill(normal);
    shape(h, what);
    return h;
  }

  std::size_t pick(std::size_t from, std::size_t to) { return std::uniform_int_distribution<std::size_t>(from, to)(random_); }
  double normal() { return normal_(random_); }
  /// Random sign and fraction, biased exponent from … to (0: subnormal or zero).
  bf16_code with_exponent(int from, int to) {
    return bf16_code::from_bits(std::uint16_t((pick(0, 1) << 15) | (pick(std::size_t(from), std::size_t(to)) << 7) | pick(0, 127)));
  }

 private:
  void shape(head& h, kind what) {
    switch (what) {
      case kind::gaussian: return;
      case kind::large_scores: h.q.fill([&] { return bf16(normal() * 700); }); return;
      case kind::ties:
        for (std::size_t j = 1; j < h.k.rows; ++j)
          if (pick(0, 2)) copy_row(h.k, pick(0, j - 1), j);
        return;
      case kind::one_hot:
        for (std::size_t c = 0; c < h.k.columns; ++c) h.k.at(0, c) = bf16(40 * normal());
        for (std::size_t i = 0; i < h.q.rows; ++i)
          for (std::size_t c = 0; c < h.q.columns; ++c) h.q.at(i, c) = bf16_code::from_bits(h.k.at(0, c).to_bits());
        return;
      case kind::cancelling_v:
        for (std::size_t j = 1; j < h.k.rows; j += 2) {
          copy_row(h.k, j - 1, j);
          for (std::size_t c = 0; c < h.v.columns; ++c)
            h.v.at(j, c) = pick(0, 4) ? h.v.at(j - 1, c).negated() : bf16_code::from_bits(std::uint16_t(h.v.at(j - 1, c).negated().to_bits() ^ 1));
        }
        return;
      case kind::tiny_v: h.v.fill([&] { return with_exponent(0, 3); }); return;
      case kind::huge_cancelling_scores: huge_cancelling(h); return;
      case kind::all_exponents: {
        const auto any = [&] { return with_exponent(0, 254); };
        h.q.fill(any);
        h.k.fill(any);
        h.v.fill(any);
        return;
      }
      case kind::wide_exponents:
        h.q.fill([&] { return with_exponent(105, 130); });
        h.k.fill([&] { return with_exponent(105, 130); });
        h.v.fill([&] { return with_exponent(60, 190); });
        return;
    }
  }
  /// Terms of several scales up to 2^250 that cancel in pairs, far from each other, so that ordinary differences of scores remain.
  void huge_cancelling(head& h) {
    const std::size_t largest = pick(20, 125);
    for (std::size_t c = 0; c + 1 < h.q.columns; c += 3) {
      const int scale = int(pick(0, largest));
      for (std::size_t i = 0; i < h.q.rows; ++i) h.q.at(i, c) = h.q.at(i, c + 1) = bf16(std::ldexp(normal() / 8, scale));
      for (std::size_t j = 0; j < h.k.rows; ++j) {
        h.k.at(j, c) = bf16(std::ldexp(normal() / 8, scale));
        h.k.at(j, c + 1) = h.k.at(j, c).negated();
      }
    }
    for (std::size_t c = 0; c < h.q.columns; ++c) {
      const std::size_t other = pick(0, h.q.columns - 1);
      for (matrix* m : {&h.q, &h.k})
        for (std::size_t i = 0; i < m->rows; ++i) std::swap(m->at(i, c), m->at(i, other));
    }
  }
  static void copy_row(matrix& m, std::size_t from, std::size_t to) {
    for (std::size_t c = 0; c < m.columns; ++c) m.at(to, c) = bf16_code::from_bits(m.at(from, c).to_bits());
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

}  // namespace stickybit_test
