// The fast form of block_fma for BF16 units of 8 or 16 products: floats where they are exact, the definition elsewhere.
//
// Let E be the largest exponent in a block, and E in [lowest_fast, highest_fast]. Then
//  - each product of two BF16 numbers is exact in FP32 (16 significand bits) unless it lies below 2^-126, and then it lies
//    below the quantum 2^(E−F) too and is cut to 0 either way;
//  - times 2^(F−E), a power of two, it is a product in quanta, below 2^(F+2) in magnitude; conversion to an integer
//    truncates, as the machine does; so does c's;
//  - eight products stay below 2^(F+5) ≤ 2^30, so two 32-bit sums hold sixteen; they and c meet in a double, exactly;
//  - cutting that double to 24 bits and multiplying by 2^(E−F) is rounding toward zero, and the result is a normal number.
// Zero operands have an exponent far below any other, infinities and NaN one far above, so they leave the range by themselves.
// A column of nothing but zeros is +0 at any scale.
#include "stickybit/block_fma/column_panel.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

constexpr int panel_rows = 16;  // k in the panel is padded to this
constexpr int group = 16;  // columns computed together
constexpr int lowest_fast = -90, highest_fast = 120;
constexpr std::int16_t exponent_of_zero = -4000, exponent_of_special = 8000;  // no sum of two reaches the other's range
constexpr int highest_product_with_zero = exponent_of_zero + 200;

constexpr std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

std::int16_t alignment_exponent(bf16_code c) {
  const decoded d = decode(c);
  switch (d.kind) {
    case number_class::zero: return exponent_of_zero;
    case number_class::infinite:
    case number_class::nan: return exponent_of_special;
    default: return std::int16_t(d.e);
  }
}

float value_or_zero(bf16_code c) { return c.is_finite() ? to_float(widen(c)) : 0.0f; }

float float_pow2(int e) { return std::bit_cast<float>(std::uint32_t(e + 127) << 23); }

/// The double cut to FP32's 24 bits, toward zero.
double cut_to_f32(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~((std::uint64_t{1} << 29) - 1)); }

}  // namespace

column_panel::column_panel(bf16_code const* data, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride)
    : k_count_(k_count), n_count_(n_count), k_padded_(round_up(k_count, panel_rows)), n_padded_(round_up(n_count, group)) {
  const auto size = std::size_t(k_padded_ * n_padded_);
  codes_.assign(size, bf16_code::zero());
  values_.assign(size, 0.0f);
  exponents_.assign(size, exponent_of_zero);
  for (std::int64_t k = 0; k < k_count; ++k)
    for (std::int64_t n = 0; n < n_count; ++n) {
      const bf16_code c = data[k * k_stride + n * n_stride];
      const auto at = std::size_t(k * n_padded_ + n);
      codes_[at] = c;
      values_[at] = value_or_zero(c);
      exponents_[at] = alignment_exponent(c);
    }
}

row_times_panel::row_times_panel(machine_unit const& unit, engine how) : unit_(unit), engine_(how) {
  if (unit.input != format::bf16 || unit.output != format::f32 || unit.block_size < 1 || panel_rows % unit.block_size != 0)
    throw shape_error("row_times_panel: the unit must take BF16 in blocks that divide 16 products, and give FP32");
  const bool fast_covers = (unit.block_size == 8 || unit.block_size == 16) && unit.accumulator == accumulator_place::aligned && unit.output_rounding == rounding::toward_zero &&
                           unit.alignment_fraction_bits >= 8 && unit.alignment_fraction_bits <= 25 && unit.min_alignment_exponent <= lowest_fast;
  if (!fast_covers) engine_ = engine::definition;
}

void row_times_panel::take_apart(std::span<bf16_code const> a) {
  const auto padded = std::size_t(round_up(std::int64_t(a.size()), panel_rows));
  codes_.assign(padded, bf16_code::zero());
  std::copy(a.begin(), a.end(), codes_.begin());
  if (engine_ == engine::definition) return;
  values_.resize(padded);
  exponents_.resize(padded);
  std::transform(codes_.begin(), codes_.end(), values_.begin(), value_or_zero);
  std::transform(codes_.begin(), codes_.end(), exponents_.begin(), alignment_exponent);
}

f32_code row_times_panel::defined(column_panel const& panel, std::int64_t k, std::int64_t n, int block, f32_code c) const {
  const auto size = std::size_t(unit_.block_size);
  std::array<bf16_code, panel_rows> b;
  for (int i = 0; i < unit_.block_size; ++i) b[std::size_t(i)] = panel.codes_[std::size_t((k + i) * panel.n_padded_ + n)];
  return block_fma<format::bf16>(unit_, std::span<bf16_code const>(codes_).subspan(std::size_t(block), size), std::span<bf16_code const>(b).first(size), c);
}

template <int BlockSize>
void row_times_panel::fast_group(column_panel const& panel, std::int64_t k, std::int64_t n, int block, int count, f32_code* c) {
  float const* a = values_.data() + block;
  std::int16_t const* ea = exponents_.data() + block;
  float const* b = panel.values_.data() + k * panel.n_padded_ + n;
  std::int16_t const* eb = panel.exponents_.data() + k * panel.n_padded_ + n;
  const std::int64_t stride = panel.n_padded_;
  const int fraction_bits = unit_.alignment_fraction_bits;

  std::int16_t max_exponent[group];
  float start[group];
  for (int j = 0; j < group; ++j) max_exponent[j] = std::int16_t(2 * exponent_of_zero);
  for (int i = 0; i < BlockSize; ++i)
    for (int j = 0; j < group; ++j) max_exponent[j] = std::max(max_exponent[j], std::int16_t(ea[i] + eb[i * stride + j]));

  // Every column of the group goes the same way. Columns past count start from 0 and count too: what they hold is real.
  float to_quanta[group], from_quanta[group];
  bool all_fast = true;
  for (int j = 0; j < group; ++j) {
    const std::uint32_t bits = j < count ? c[j].to_bits() : 0;
    start[j] = std::bit_cast<float>(bits);
    const int c_exponent = int(bits >> 23 & 0xff) - 127;  // of 0 and subnormals: −127, below lowest_fast
    const bool nothing = max_exponent[j] <= highest_product_with_zero && bits << 1 == 0;
    const int e = std::max<int>(max_exponent[j], c_exponent);
    all_fast &= nothing || (e >= lowest_fast && e <= highest_fast);
    const int used = nothing ? 0 : std::clamp(e, lowest_fast, highest_fast);
    to_quanta[j] = float_pow2(fraction_bits - used);
    from_quanta[j] = float_pow2(used - fraction_bits);
  }
  if (!all_fast) {
    for (int j = 0; j < count; ++j) c[j] = defined(panel, k, n + j, block, c[j]);
    return;
  }

  std::int32_t low[group] = {}, high[group] = {};
  for (int i = 0; i < BlockSize / 2; ++i)
    for (int j = 0; j < group; ++j) low[j] += std::int32_t(a[i] * b[i * stride + j] * to_quanta[j]);
  for (int i = BlockSize / 2; i < BlockSize; ++i)
    for (int j = 0; j < group; ++j) high[j] += std::int32_t(a[i] * b[i * stride + j] * to_quanta[j]);

  float result[group];
  for (int j = 0; j < group; ++j) {
    const double sum = double(low[j]) + double(high[j]) + double(std::int32_t(start[j] * to_quanta[j]));
    result[j] = float(cut_to_f32(sum)) * from_quanta[j];
  }
  for (int j = 0; j < count; ++j) c[j] = code_of(result[j]);
}

void row_times_panel::accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
  const auto length = std::int64_t(a.size()), columns = std::int64_t(c.size());
  if (k_begin < 0 || k_begin % panel_rows != 0 || k_begin + length > panel.k_padded_ || n_begin < 0 || n_begin % group != 0 || n_begin + columns > panel.n_count_)
    throw shape_error("row_times_panel: the ranges of k and n must lie inside the panel and begin at multiples of 16");
  if (length % panel_rows != 0 && k_begin + length < panel.k_count_)
    throw shape_error("row_times_panel: a must end on a whole block or at the panel's end");
  take_apart(a);
  const int size = unit_.block_size;
  for (int block = 0; block < length; block += size) {
    const std::int64_t k = k_begin + block;
    if (engine_ == engine::definition) {
      for (std::int64_t j = 0; j < columns; ++j) c[std::size_t(j)] = defined(panel, k, n_begin + j, block, c[std::size_t(j)]);
      continue;
    }
    for (std::int64_t j = 0; j < columns; j += group) {
      const int count = int(std::min<std::int64_t>(group, columns - j));
      if (size == 16) fast_group<16>(panel, k, n_begin + j, block, count, c.data() + j);
      else fast_group<8>(panel, k, n_begin + j, block, count, c.data() + j);
    }
  }
}

}  // namespace stickybit
