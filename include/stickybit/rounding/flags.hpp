#pragma once
#include <concepts>
#include <cstdint>

#include "stickybit/format/code.hpp"

namespace stickybit {

/// What IEEE 754 would signal: a part of the result, never a global state. Every NaN here is quiet: a NaN operand alone is not invalid.
///   inexact         the result is not the exact value
///   underflow       tiny and inexact; tiny is decided on the value rounded to p bits with an exponent of any size ("after
///                   rounding"), as flushing is. A flushed result is both
///   overflow        beyond the largest finite number, whatever the result becomes: infinity, NaN, the largest number
///   invalid         no number is the answer (infinity − infinity, 0·infinity), or the format cannot say it (NaN in E2M1, −1 in E8M0)
///   divide_by_zero  an exact infinity from finite operands
/// @source IEEE 754-2019 §7
struct flags {
  bool inexact = false;
  bool underflow = false;
  bool overflow = false;
  bool invalid = false;
  bool divide_by_zero = false;

  friend constexpr bool operator==(flags, flags) noexcept = default;
  constexpr flags& operator|=(flags other) noexcept {
    inexact |= other.inexact;
    underflow |= other.underflow;
    overflow |= other.overflow;
    invalid |= other.invalid;
    divide_by_zero |= other.divide_by_zero;
    return *this;
  }
};

/// Event: a result that the classes of the operands decide (NaN, infinity); nothing was rounded.
struct special_result {
  format target;
  flags raised;
  std::uint32_t bits;
};

/// A sink that collects the flags of the operations it is given to.
struct flag_sink {
  flags raised;

  template <class Event>
  constexpr void operator()(Event const& event) noexcept {
    if constexpr (requires { raised |= event.raised; }) raised |= event.raised;
  }
};

template <format F>
struct rounded_value {
  code<F> value;
  flags raised;

  friend constexpr bool operator==(rounded_value, rounded_value) noexcept = default;
};
template <format F>
rounded_value(code<F>, flags) -> rounded_value<F>;

/// The result of an operation together with its flags: with_flags([&](auto& sink) { return fma(a, b, c, subnormals::kept, sink); }).
template <class Operation>
[[nodiscard]] constexpr auto with_flags(Operation&& operation) {
  flag_sink sink;
  const auto value = operation(sink);
  return rounded_value{value, sink.raised};
}

namespace detail {

template <format F, class Sink>
constexpr code<F> finish_special(code<F> result, flags raised, Sink& sink) {
  if constexpr (std::invocable<Sink&, special_result const&>) sink(special_result{F, raised, result.to_bits()});
  return result;
}

}  // namespace detail

}  // namespace stickybit
