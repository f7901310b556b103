#include "unit_cases.hpp"

#include "stickybit/format/code.hpp"

namespace stickybit::detail {

exponent_range exponents_of(format f) noexcept {
  const format_traits t = traits_of(f);
  return {t.e_min() - t.fraction_bits(), t.e_min(), t.e_max()};
}

namespace {

std::uint64_t assemble(format f, bool negative, std::uint64_t magnitude) noexcept {
  const format_traits t = traits_of(f);
  if (magnitude == 0 && !t.has_negative_zero()) negative = false;
  return magnitude << t.padding_bits | std::uint64_t(negative) << (t.width_bits - 1);
}

}  // namespace

std::uint64_t power_bits(format f, bool negative, int e) noexcept {
  const format_traits t = traits_of(f);
  const int up = e - (t.e_min() - t.fraction_bits());
  return assemble(f, negative, e < t.e_min() ? std::uint64_t{1} << up : std::uint64_t(e + t.bias()) << t.fraction_bits());
}

std::uint64_t zero_bits(format f, bool negative) noexcept { return assemble(f, negative, 0); }

case_maker::case_maker(unit_formats const& formats, std::uint64_t seed)
    : formats_(formats), a_(exponents_of(formats.a)), b_(exponents_of(formats.b)), k_(std::size_t(formats.k)), random_(seed) {}

unit_case case_maker::blank() const { return {std::vector<std::uint64_t>(k_, zero_bits(formats_.a, false)), std::vector<std::uint64_t>(k_, zero_bits(formats_.b, false)), 0}; }

/// A number with exponent e and a random fraction; subnormal where e is.
std::uint64_t case_maker::number(format f, bool negative, int e) {
  const format_traits t = traits_of(f);
  const exponent_range range = exponents_of(f);
  e = std::clamp(e, range.lowest, range.highest);
  const int free_bits = e < range.lowest_normal ? e - range.lowest : t.fraction_bits();
  const std::uint64_t fraction = random_() & ((std::uint64_t{1} << free_bits) - 1);
  std::uint64_t magnitude = (power_bits(f, false, e) >> t.padding_bits) + fraction;
  if (f != format::f64) magnitude = std::min<std::uint64_t>(magnitude, t.largest_magnitude());
  return assemble(f, negative, magnitude);
}

/// Two exponents of operands that add up to e, or come as near as they can.
void case_maker::split(int e, int& e_a, int& e_b, bool normal) {
  const int low_a = normal ? a_.lowest_normal : a_.lowest, low_b = normal ? b_.lowest_normal : b_.lowest;
  e = std::clamp(e, low_a + low_b, a_.highest + b_.highest);
  e_a = between(std::max(low_a, e - b_.highest), std::min(a_.highest, e - low_b));
  e_b = e - e_a;
}

void case_maker::put_power(unit_case& x, std::size_t k, bool negative, int e) {
  int e_a = 0, e_b = 0;
  split(e, e_a, e_b, e >= a_.lowest_normal + b_.lowest_normal);
  const bool sign_on_a = one_in(2);
  x.a[k] = power_bits(formats_.a, negative && sign_on_a, e_a);
  x.b[k] = power_bits(formats_.b, negative && !sign_on_a, e_b);
}

void case_maker::put_c_power(unit_case& x, bool negative, int e) const {
  if (formats_.c == format::f16 || formats_.output == format::f16) e = std::clamp(e, -24, 15);
  const format f = formats_.c == format::f64 ? format::f64 : format::f32;
  const exponent_range range = exponents_of(f);
  x.c = power_bits(f, negative, std::clamp(e, range.lowest, range.highest));
}

void case_maker::put_product(unit_case& x, std::size_t k, int e) {
  int e_a = 0, e_b = 0;
  split(e, e_a, e_b, true);
  x.a[k] = number(formats_.a, one_in(2), e_a);
  x.b[k] = number(formats_.b, one_in(2), e_b);
}

void case_maker::put_c(unit_case& x, int e) {
  const format f = formats_.c == format::f64 ? format::f64 : format::f32;
  if (formats_.output == format::f16) e = std::clamp(e, -30, 15);
  x.c = number(f, one_in(2), e);
  if (one_in(3)) x.c = power_bits(f, one_in(2), std::clamp(e, exponents_of(f).lowest, exponents_of(f).highest)) + std::uint64_t(between(0, 2));
  if (one_in(3)) x.c &= ~std::uint64_t{0x1fff};
}

void case_maker::keep_c_in_format(unit_case& x) const {
  if (formats_.c == format::f16) x.c = from_f16_bits(to_f16_bits(x.c));
}

/// An exponent for the largest terms: far from the output's ends, and above 0 · 0 where zeros should count.
int case_maker::ordinary_level() {
  const int low = a_.lowest_normal + b_.lowest_normal, high = a_.highest + b_.highest - 1;
  const int wanted_low = formats_.output == format::f16 ? -1 : -30, wanted_high = formats_.output == format::f16 ? 9 : 40;
  const int top = std::min(high, wanted_high);
  return between(std::min(std::max(low + 2, wanted_low), top), top);
}

/// One or two pairs of opposite products at the level, the rest far below.
void case_maker::fill_cancelling(unit_case& x, int level) {
  for (std::size_t k = 0; k < k_; ++k)
    if (!one_in(3)) put_product(x, k, level - between(12, 40));
  for (int pairs = between(1, 2); pairs > 0 && k_ > 1; --pairs) {
    const auto i = std::size_t(between(0, int(k_) - 1)), j = (i + std::size_t(between(1, int(k_) - 1))) % k_;
    put_product(x, i, level + between(0, 2));
    x.a[j] = x.a[i];
    x.b[j] = x.b[i] ^ std::uint64_t{1} << (traits_of(formats_.b).width_bits - 1);
  }
  if (!one_in(3)) put_c(x, level - between(10, 40));
}

/// Powers of two within `reach` binades below the level, some products +0.
void case_maker::fill_powers(unit_case& x, int level, int reach, int floor) {
  const int sparse = between(1, 4), sign = between(1, 3);
  for (std::size_t k = 0; k < k_; ++k)
    if (one_in(sparse)) put_power(x, k, one_in(sign), std::max(level - between(0, reach), floor));
  if (k_ > 1 && one_in(2)) {
    const auto i = std::size_t(between(0, int(k_) - 1)), j = std::size_t(between(0, int(k_) - 1));
    put_power(x, i, false, std::max(level, floor));
    if (i != j && one_in(2)) put_power(x, j, true, std::max(level, floor));
  }
  if (one_in(2)) put_c_power(x, one_in(2), level - between(-2, reach));
}

/// c so far above the products that its last bit is about theirs.
void case_maker::fill_large_c(unit_case& x, int level) {
  const int sparse = between(1, 3), sign = between(1, 3);
  for (std::size_t k = 0; k < k_; ++k) {
    if (!one_in(sparse)) continue;
    if (one_in(2)) put_product(x, k, level - between(0, 6));
    else put_power(x, k, one_in(sign), std::max(level - between(0, 6), lowest_normal_product()));
  }
  put_c(x, level + between(15, 32));
}

/// Products so small that the alignment exponent is at its lower limit: multiples of the smallest output less a few about the last kept bit.
void case_maker::fill_clamp(unit_case& x) {
  const int unit = exponents_of(formats_.output).lowest, low = lowest_product();
  const bool one_bit = one_in(2), negative = one_in(2);
  const int level = one_bit ? unit + between(0, 14) : unit - between(0, 20);
  for (std::size_t k = 0; k < k_; ++k) {
    if (one_in(2)) continue;
    const bool large = one_in(3);
    put_power(x, k, large ? negative : !negative, std::max(low, large ? level : unit - between(-3, 45)));
  }
  if (one_in(3)) x.c = std::uint64_t(between(0, 1)) << 31;
  else if (one_in(2)) put_c_power(x, one_in(2), unit + between(0, 24));
}

void case_maker::fill_signed_zeros(unit_case& x) {
  const int vanishing = between(0, 3), positive = between(1, 8);
  for (std::size_t k = 0; k < k_; ++k) {
    x.a[k] = zero_bits(formats_.a, !one_in(positive));
    if (between(0, 3) < vanishing) put_power(x, k, !one_in(positive), std::max(lowest_product(), exponents_of(formats_.output).lowest - between(-1, 40)));
  }
  x.c = std::uint64_t(between(0, 1)) << 31;
  if (one_in(3)) {  // all terms zeros of one sign, but for one perhaps
    const bool negative = !one_in(4);
    for (std::size_t k = 0; k < k_; ++k) {
      x.a[k] = zero_bits(formats_.a, false);
      x.b[k] = power_bits(formats_.b, negative, b_.lowest_normal);
    }
    x.c = std::uint64_t(negative) << 31;
    if (one_in(4)) x.c ^= std::uint64_t{1} << 31;
    if (one_in(4)) x.b[std::size_t(between(0, int(k_) - 1))] = zero_bits(formats_.b, false);
    return;
  }
  if (k_ > 1 && one_in(3)) {  // exactly zero
    const int e = ordinary_level();
    for (std::size_t k = 0; k < k_; ++k) x.a[k] = zero_bits(formats_.a, one_in(2));
    const auto i = std::size_t(between(0, int(k_) - 1)), j = std::size_t(between(0, int(k_) - 1));
    put_power(x, i, false, e);
    if (i != j) put_power(x, j, true, e);
    else put_c_power(x, true, e);
  }
}

void case_maker::fill_zero_by_large(unit_case& x) {
  const int level = std::max(exponents_of(formats_.output).lowest + between(0, 60), lowest_product());
  fill_powers(x, level, 40, lowest_product());
  for (std::size_t k = 0; k < k_; ++k) {
    if (!one_in(4)) continue;
    const bool zero_is_a = one_in(2);
    x.a[k] = zero_is_a ? zero_bits(formats_.a, one_in(2)) : number(formats_.a, one_in(2), between(a_.lowest_normal, a_.highest));
    x.b[k] = zero_is_a ? number(formats_.b, one_in(2), between(b_.lowest_normal, b_.highest)) : zero_bits(formats_.b, one_in(2));
  }
  if (one_in(2)) x.c = std::uint64_t(between(0, 1)) << 31;
}

/// Two opposite products of a subnormal and a large number, and others that are kept or lost by the exponent those two have.
void case_maker::fill_cancelled_subnormals(unit_case& x) {
  const bool b_is_subnormal = one_in(2);
  exponent_range const &small = b_is_subnormal ? b_ : a_, &large = b_is_subnormal ? a_ : b_;
  const format small_format = b_is_subnormal ? formats_.b : formats_.a, large_format = b_is_subnormal ? formats_.a : formats_.b;
  const int e_small = between(small.lowest, small.lowest_normal - 1), e_large = large.highest - between(0, 3);
  for (std::size_t k = 0; k < k_; ++k)
    if (one_in(2)) put_power(x, k, one_in(2), std::max(e_small + e_large - between(14, 32), lowest_product()));
  const auto i = std::size_t(between(0, int(k_) - 1)), j = (i + std::size_t(between(1, int(k_) - 1))) % k_;
  for (std::size_t k : {i, j}) {
    const std::uint64_t s = power_bits(small_format, k == j, e_small), l = power_bits(large_format, false, e_large);
    x.a[k] = b_is_subnormal ? l : s;
    x.b[k] = b_is_subnormal ? s : l;
  }
}

void case_maker::fill_subnormal_operands(unit_case& x) {
  if (k_ > 2 && one_in(4)) return fill_cancelled_subnormals(x);
  for (std::size_t k = 0; k < k_; ++k) {
    const int e_a = one_in(2) ? between(a_.lowest, a_.lowest_normal) : between(std::max(a_.lowest_normal, -30), std::min(a_.highest, 30));
    const int most = std::max(b_.lowest_normal, std::min(b_.highest, exponents_of(formats_.output).highest - 8 - e_a));  // no overflow
    const int e_b = one_in(2) ? between(b_.lowest, b_.lowest_normal) : between(b_.lowest_normal, most);
    x.a[k] = number(formats_.a, one_in(2), e_a);
    x.b[k] = number(formats_.b, one_in(2), e_b);
    if (formats_.a == formats_.b && one_in(2)) std::swap(x.a[k], x.b[k]);
    if (one_in(4)) x.a[k] = zero_bits(formats_.a, false), x.b[k] = zero_bits(formats_.b, false);
  }
  if (one_in(2)) put_c(x, output_lowest() - between(-3, 24));
}

void case_maker::fill_overflow(unit_case& x) {
  const int top = exponents_of(formats_.output).highest, mixed = between(1, 8);
  const bool negative = one_in(2);
  for (std::size_t k = 0; k < k_; ++k) {
    if (one_in(4)) continue;
    const int e = top - between(-2, 8);
    if (one_in(2)) put_power(x, k, one_in(mixed) ? !negative : negative, std::min(e, highest_product()));
    else put_product(x, k, e);
  }
  if (!one_in(4)) {
    put_c(x, top - between(0, 4));
    if (one_in(2)) x.c = power_bits(format::f32, negative, std::min(top, 127)) - std::uint64_t(between(0, 2)) + 0x7fffff;
  }
}

std::uint64_t case_maker::special(format f) {
  const format_traits t = traits_of(f);
  const bool negative = one_in(2);
  switch (between(0, 4)) {
    case 0:
    case 1:
      if (t.has_infinity()) return assemble(f, negative, t.largest_magnitude() + 1);
      break;
    case 2:
      if (t.special == special_codes::nan_negative_zero) return std::uint64_t{1} << (t.width_bits - 1);
      if (t.has_nan()) return assemble(f, negative, t.largest_magnitude() + 1 + (t.has_infinity() ? std::uint64_t(between(1, (1 << std::min(t.fraction_bits(), 20)) - 1)) : 0));
      break;
    case 3: return zero_bits(f, negative);
    default: break;
  }
  return assemble(f, negative, t.largest_magnitude());
}

void case_maker::fill_special(unit_case& x) {
  for (std::size_t k = 0; k < k_; ++k) put_product(x, k, ordinary_level() - between(0, 10));
  put_c(x, ordinary_level());
  for (int left = between(1, 4); left > 0; --left) {
    const int place = between(0, 2 * int(k_));
    if (place == 2 * int(k_)) x.c = formats_.c == format::f64 ? 0 : special(format::f32);
    else if (place < int(k_)) x.a[std::size_t(place)] = special(formats_.a);
    else x.b[std::size_t(place) - k_] = special(formats_.b);
  }
}

void case_maker::fill_any_bits(unit_case& x) {
  const auto any = [&](format f) {
    const int width = traits_of(f).width_bits;
    return width == 64 ? random_() : random_() & ((std::uint64_t{1} << width) - 1);
  };
  for (std::size_t k = 0; k < k_; ++k) {
    x.a[k] = any(formats_.a);
    x.b[k] = any(formats_.b);
  }
  x.c = formats_.c == format::f64 ? random_() : random_() & 0xffffffff;
}

unit_case case_maker::make(case_kind kind) {
  unit_case x = blank();
  const int level = ordinary_level();
  const auto anywhere = std::size_t(between(0, int(k_) - 1));
  const bool ordinary = std::ranges::find(ordinary_kinds, kind) != ordinary_kinds.end();
  switch (kind) {
    case case_kind::narrow:
      for (std::size_t k = 0; k < k_; ++k) put_product(x, k, level - between(0, 5));
      if (!one_in(6)) put_c(x, level - between(-3, 8));
      break;
    case case_kind::spread:
      for (std::size_t k = 0; k < k_; ++k) put_product(x, k, level - between(0, 45));
      if (!one_in(6)) put_c(x, level - between(-10, 45));
      break;
    case case_kind::cancelling: fill_cancelling(x, level); break;
    case case_kind::large_c: fill_large_c(x, level); break;
    case case_kind::c_cancels: {
      const std::size_t i = anywhere;
      for (std::size_t k = 0; k < k_; ++k)
        if (one_in(2)) put_product(x, k, level - between(12, 45));
      const bool negative = one_in(2);
      put_power(x, i, negative, std::max(level, lowest_product()));
      put_c_power(x, !negative, std::max(level, lowest_product()));
      break;
    }
    case case_kind::powers: fill_powers(x, level, 45, lowest_normal_product()); break;
    case case_kind::tiny:
      for (std::size_t k = 0; k < k_; ++k)
        if (!one_in(4)) put_product(x, k, output_lowest() - between(-8, 40));
      if (!one_in(3)) put_c(x, output_lowest() - between(-6, 24));
      break;
    case case_kind::tiny_powers: fill_powers(x, std::max(output_lowest() + between(-30, 8), lowest_product()), 40, lowest_product()); break;
    case case_kind::clamp: fill_clamp(x); break;
    case case_kind::signed_zeros: fill_signed_zeros(x); break;
    case case_kind::zero_by_large: fill_zero_by_large(x); break;
    case case_kind::subnormal_operands: fill_subnormal_operands(x); break;
    case case_kind::overflow: fill_overflow(x); break;
    case case_kind::low_bits:
      fill_powers(x, level, 20, lowest_normal_product());
      for (std::size_t k = 0; k < k_; ++k) {
        if (formats_.a == format::tf32) x.a[k] |= random_() & 0x1fff & (one_in(2) ? 0x1000 : 0x1fff);
        if (formats_.b == format::tf32) x.b[k] |= random_() & 0x1fff & (one_in(2) ? 0x1800 : 0x1fff);
      }
      break;
    case case_kind::special: fill_special(x); break;
    case case_kind::any_bits: fill_any_bits(x); break;
  }
  if (kind == case_kind::spread || kind == case_kind::powers || kind == case_kind::narrow) put_power(x, anywhere, one_in(2), std::max(level, lowest_normal_product()));  // E stays high
  const bool tiny_c = formats_.output == format::f16 && (x.c & 0x7fffffff) < power_bits(format::f32, false, -14);
  if (ordinary && tiny_c) x.c = 0;
  keep_c_in_format(x);
  return x;
}

}  // namespace stickybit::detail
