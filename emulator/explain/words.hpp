#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/explain/teller.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/rounding/round_pack.hpp"

// The vocabulary of all accounts: codes, bits, one rounding, errors.

namespace stickybit::detail {

/// Colour, or none. What is to be padded is padded first.
class ink {
 public:
  explicit constexpr ink(text_style style) noexcept : on_(style == text_style::ansi) {}

  [[nodiscard]] std::string kept(std::string_view text) const { return in("1", text); }
  [[nodiscard]] std::string cut(std::string_view text) const { return in("2;31", text); }
  [[nodiscard]] std::string heading(std::string_view text) const { return in("1", text); }
  [[nodiscard]] std::string faint(std::string_view text) const { return in("2", text); }
  /// `text` in the colour of the sign of `amount`: above zero yellow, below blue, zero green.
  [[nodiscard]] std::string error(double amount, std::string_view text) const { return in(amount > 0 ? "33" : amount < 0 ? "34" : amount == 0 ? "32" : "0", text); }

 private:
  [[nodiscard]] std::string in(std::string_view how, std::string_view text) const;
  bool on_;
};

/// "0xC097  -1.0010111 × 2^2 = -4.71875"
template <format F>
[[nodiscard]] std::string describe(code<F> c);
[[nodiscard]] std::string describe(format f, std::uint32_t bits);
[[nodiscard]] std::string hex_of(format f, std::uint32_t bits);
[[nodiscard]] std::string binary_of(format f, std::uint32_t bits);
[[nodiscard]] std::string decimal_of(format f, std::uint32_t bits);

/// Lines of at most `width` columns, broken at blanks; colour takes no room. Ends with a newline.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

/// Each line of a text after `indent`.
[[nodiscard]] std::string indented(std::string_view lines, std::string_view indent);

/// The low `width` bits of a number, highest first.
[[nodiscard]] std::string bits_of(std::uint64_t value, int width);
/// The same of what is cut, without the zeros at its end, shortened in the middle where there are too many to look at.
[[nodiscard]] std::string cut_bits(std::uint64_t significand, int drop);

/// One rounding: kept and cut bits; round bit, sticky bit, rule; direction and error; what overflow and underflow made of it.
[[nodiscard]] std::vector<std::string> rounding_lines(rounded const& event, ink const& pen);
/// What the mode makes of what is cut, and why: "exactly half: a tie; the last kept bit is 0, already even: the magnitude stays".
[[nodiscard]] std::string rule_text(rounded const& event);
/// rounding_lines as one text, each line beginning with `indent`.
[[nodiscard]] std::string describe(rounded const& event, std::string_view indent);

/// value − exact of a rounding, as a number; its size in ulp of the result.
[[nodiscard]] double error_of(rounded const& event);
[[nodiscard]] double error_in_ulp(rounded const& event);

/// "+0.124" with enough digits to be read: a signed number of ulp. "0" for none, "?" where it is not finite.
[[nodiscard]] std::string signed_ulps(double ulps);

}  // namespace stickybit::detail
