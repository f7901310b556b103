#pragma once
#include "oracle/formats.hpp"

// add, sub, mul, fma, div, min and max of any format, on exact numbers.  @source IEEE 754-2019 §5.4.1, §6, §7; PTX ISA min, max

namespace oracle {

template <class Number>
class operations {
 public:
  explicit operations(number_format const& f) : round(f), f_(f) {}

  [[nodiscard]] outcome add(std::uint32_t a, std::uint32_t b, rules r) const { return sum(a, b, false, r); }
  [[nodiscard]] outcome sub(std::uint32_t a, std::uint32_t b, rules r) const { return sum(a, b, true, r); }

  [[nodiscard]] outcome mul(std::uint32_t a, std::uint32_t b, rules r) const {
    a = read(a, r);
    b = read(b, r);
    const bool minus = f_.minus(a) != f_.minus(b);
    if (f_.is_nan(a) || f_.is_nan(b)) return round.nan(false);
    if ((f_.is_infinite(a) && is_zero(b)) || (is_zero(a) && f_.is_infinite(b))) return round.nan(true);
    if (f_.is_infinite(a) || f_.is_infinite(b)) return {.code = round.infinite(false, minus)};
    return round(r, minus, product(a, b));
  }

  [[nodiscard]] outcome fma(std::uint32_t a, std::uint32_t b, std::uint32_t c, rules r) const {
    a = read(a, r);
    b = read(b, r);
    c = read(c, r);
    const bool minus = f_.minus(a) != f_.minus(b);
    if (f_.is_nan(a) || f_.is_nan(b) || f_.is_nan(c)) return round.nan(false);
    const bool infinite = f_.is_infinite(a) || f_.is_infinite(b);
    if ((f_.is_infinite(a) && is_zero(b)) || (is_zero(a) && f_.is_infinite(b))) return round.nan(true);
    if (infinite && f_.is_infinite(c) && minus != f_.minus(c)) return round.nan(true);
    if (infinite || f_.is_infinite(c)) return {.code = round.infinite(false, infinite ? minus : f_.minus(c))};
    return signed_sum(minus, product(a, b), f_.minus(c), magnitude(c), r);
  }

  /// Number must be rational: quotients have no end.
  [[nodiscard]] outcome div(std::uint32_t a, std::uint32_t b, rules r) const {
    a = read(a, r);
    b = read(b, r);
    const bool minus = f_.minus(a) != f_.minus(b);
    if (f_.is_nan(a) || f_.is_nan(b)) return round.nan(false);
    if ((is_zero(a) && is_zero(b)) || (f_.is_infinite(a) && f_.is_infinite(b))) return round.nan(true);
    if (f_.is_infinite(a)) return {.code = round.infinite(false, minus)};
    if (is_zero(b)) return {.code = round.infinite(r.overflow == beyond::saturate, minus), .divide_by_zero = true};
    if (f_.is_infinite(b)) return {.code = round.with_sign(minus, 0)};
    return round(r, minus, Number(magnitude(a) / magnitude(b)));
  }

  [[nodiscard]] std::uint32_t max(std::uint32_t a, std::uint32_t b, bool flush) const { return choose(a, b, flush, false); }
  [[nodiscard]] std::uint32_t min(std::uint32_t a, std::uint32_t b, bool flush) const { return choose(a, b, flush, true); }

  rounder<Number> round;

 private:
  [[nodiscard]] bool is_zero(std::uint32_t a) const { return f_.zero && !f_.is_nan(a) && f_.magnitude(a) == 0; }
  [[nodiscard]] Number magnitude(std::uint32_t a) const { return times_pow2<Number>(f_.whole(f_.magnitude(a)), f_.weight(f_.magnitude(a))); }
  [[nodiscard]] Number product(std::uint32_t a, std::uint32_t b) const {
    a = f_.magnitude(a);
    b = f_.magnitude(b);
    return times_pow2<Number>(f_.whole(a) * f_.whole(b), f_.weight(a) + f_.weight(b));
  }
  /// With flushing a subnormal operand is the zero of its sign.
  [[nodiscard]] std::uint32_t read(std::uint32_t a, rules r) const {
    if (!r.flush || f_.is_nan(a) || f_.magnitude(a) >= f_.smallest_normal()) return a;
    return round.with_sign(f_.minus(a), 0);
  }

  [[nodiscard]] outcome signed_sum(bool minus_x, Number const& x, bool minus_y, Number const& y, rules r) const {
    const Number exact = (minus_x ? Number(-x) : x) + (minus_y ? Number(-y) : y);
    // §6.3: a zero sum of numbers of different signs is +0, except toward negative.
    if (exact == 0) return round(r, x == 0 && y == 0 && minus_x == minus_y ? minus_x : r.toward == direction::down, Number(0));
    return round(r, exact < 0, exact < 0 ? Number(-exact) : exact);
  }
  [[nodiscard]] outcome sum(std::uint32_t a, std::uint32_t b, bool negate, rules r) const {
    a = read(a, r);
    b = read(b, r);
    if (f_.is_nan(a) || f_.is_nan(b)) return round.nan(false);
    const bool minus = f_.minus(b) != negate;
    if (f_.is_infinite(a) && f_.is_infinite(b) && f_.minus(a) != minus) return round.nan(true);
    if (f_.is_infinite(a) || f_.is_infinite(b)) return {.code = round.infinite(false, f_.is_infinite(a) ? f_.minus(a) : minus)};
    return signed_sum(f_.minus(a), magnitude(a), minus, magnitude(b), r);
  }
  [[nodiscard]] std::uint32_t choose(std::uint32_t a, std::uint32_t b, bool flush, bool smaller) const {
    a = read(a, {.flush = flush});
    b = read(b, {.flush = flush});
    if (f_.is_nan(a) && f_.is_nan(b)) return f_.nan;
    if (f_.is_nan(a) || f_.is_nan(b)) return f_.is_nan(a) ? b : a;
    if (f_.minus(a) != f_.minus(b)) return f_.minus(a) == smaller ? a : b;
    // Of one sign: the larger magnitude is the larger number, unless both are negative.
    return (f_.magnitude(a) > f_.magnitude(b)) == (f_.minus(a) == smaller) ? a : b;
  }

  number_format f_;
};

}  // namespace oracle
