#pragma once
#include <array>
#include <string>
#include <utility>

#include "rounding/modes.hpp"
#include "oracle/formats.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/rounding/flags.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "support/tally.hpp"

// The library's formats, rules and results next to the oracle's. Oracle codes are without padding.
namespace testing {

template <stickybit::format F>
constexpr oracle::number_format const& numbers_of() {
  using enum stickybit::format;
  if constexpr (F == bf16) return oracle::bf16_format;
  else if constexpr (F == f32) return oracle::f32_format;
  else if constexpr (F == f16) return oracle::f16_format;
  else if constexpr (F == tf32) return oracle::tf32_format;
  else if constexpr (F == e4m3fn) return oracle::e4m3fn_format;
  else if constexpr (F == e5m2) return oracle::e5m2_format;
  else if constexpr (F == e4m3fnuz) return oracle::e4m3fnuz_format;
  else if constexpr (F == e5m2fnuz) return oracle::e5m2fnuz_format;
  else if constexpr (F == e8m0) return oracle::e8m0_format;
  else if constexpr (F == e3m2) return oracle::e3m2_format;
  else if constexpr (F == e2m3) return oracle::e2m3_format;
  else return oracle::e2m1_format;
}

/// f.template operator()<F>() for each listed format.
template <stickybit::format... F, class Function>
void for_each_format(Function f) {
  (f.template operator()<F>(), ...);
}

template <stickybit::format F>
constexpr stickybit::code<F> library_code(std::uint32_t oracle_code) {
  return stickybit::code<F>::from_bits(typename stickybit::code<F>::bits_type(oracle_code << numbers_of<F>().padding));
}
template <stickybit::format F>
constexpr std::uint32_t oracle_code(stickybit::code<F> c) {
  return std::uint32_t{c.to_bits()} >> numbers_of<F>().padding;
}
/// How many codes F has.
template <stickybit::format F>
constexpr std::uint32_t code_count() {
  return std::uint32_t{1} << (stickybit::traits_of(F).width_bits - numbers_of<F>().padding);
}

struct rule_pair {
  stickybit::rounding_rule library;
  oracle::rules oracle;

  [[nodiscard]] std::string words() const {
    return fmt::format("{}{}{}", name_of(library.mode), oracle.flush ? ", flushed" : "",
                       oracle.overflow == oracle::beyond::saturate ? ", saturated" : oracle.overflow == oracle::beyond::to_infinity ? ", to infinity" : "");
  }
};
/// Every deterministic mode × subnormals × overflow.
inline std::array<rule_pair, 36> all_rules() {
  std::array<rule_pair, 36> list{};
  std::size_t i = 0;
  for (auto mode : all_modes)
    for (bool flush : {false, true})
      for (auto [library, oracle] : {std::pair{stickybit::overflow::by_mode, oracle::beyond::by_mode}, std::pair{stickybit::overflow::to_infinity, oracle::beyond::to_infinity},
                                     std::pair{stickybit::overflow::saturate, oracle::beyond::saturate}})
        list[i++] = {{mode.library, flush ? stickybit::subnormals::flushed : stickybit::subnormals::kept, library}, {mode.oracle, flush, oracle}};
  return list;
}

/// Code and all five flags.
template <stickybit::format F>
bool same(stickybit::rounded_value<F> got, oracle::outcome const& expected) {
  const stickybit::flags f = got.raised;
  return oracle_code(got.value) == expected.code && f.inexact == expected.inexact && f.underflow == expected.underflow && f.overflow == expected.overflow &&
         f.invalid == expected.invalid && f.divide_by_zero == expected.divide_by_zero;
}
template <stickybit::format F>
std::string difference(stickybit::rounded_value<F> got, oracle::outcome const& expected) {
  const auto words = [](std::uint32_t code, auto const& f) {
    return fmt::format("{:x}{}{}{}{}{}", code, f.inexact ? " inexact" : "", f.underflow ? " underflow" : "", f.overflow ? " overflow" : "", f.invalid ? " invalid" : "",
                       f.divide_by_zero ? " divide_by_zero" : "");
  };
  return fmt::format("{}: {}, not {}", stickybit::traits_of(F).name, words(oracle_code(got.value), got.raised), words(expected.code, expected));
}

}  // namespace testing
