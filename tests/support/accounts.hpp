#pragma once
#include <string>
#include <vector>

#include "stickybit/explain/operations.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit {

inline account sum_account(std::vector<const char*> const& operands, format f = format::bf16) {
  std::vector<f32_code> codes;
  for (const char* text : operands) codes.push_back(parse_f32(text));
  return account_of_add(codes, f);
}

/// Σ terms·1 on a BF16 unit.
inline account dot_account(const char* unit, std::vector<const char*> const& terms, const char* c = "0") {
  std::vector<bf16_code> a;
  for (const char* text : terms) a.push_back(parse_bf16(text));
  return account_of_dot<format::bf16>(unit_named(unit), a, std::vector<bf16_code>(a.size(), parse_bf16("1")), parse_f32(c));
}

/// A text without its line breaks and columns: any run of blanks is one.
inline std::string flat(std::string const& text) {
  std::string one;
  for (char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank) one += c;
    else if (!one.empty() && one.back() != ' ') one += ' ';
  }
  return one;
}

inline std::uint32_t result_bits(account const& a) { return a[a.size() - 1].bits; }
inline double last_error(account const& a) { return to_double(double_double{a.value_of(a.size() - 1), 0} - a[a.size() - 1].exact); }

}  // namespace stickybit
