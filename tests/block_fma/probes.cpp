#include "probes.hpp"

#include <vector>

namespace testing {
namespace {

/// ± 2^e in BF16 and FP32, −133 ≤ e and −149 ≤ e.
constexpr std::uint16_t p(int e) { return std::uint16_t(code_at(false, e, 0, 7)); }
constexpr std::uint16_t m(int e) { return std::uint16_t(code_at(true, e, 0, 7)); }
constexpr std::uint32_t c(int e) { return code_at(false, e, 0, 23); }

/// ± 2^e as a product.
struct product {
  std::uint16_t a, b;
};
constexpr product plus(int e) { return {p(e / 2), p(e - e / 2)}; }
constexpr product minus(int e) { return {m(e / 2), p(e - e / 2)}; }

probe make(char const* what, std::vector<product> const& products, std::uint32_t accumulator, std::uint32_t result) {
  probe made{what, {}, {}, accumulator, result};
  for (std::size_t k = 0; k < products.size(); ++k) {
    made.a[k] = products[k].a;
    made.b[k] = products[k].b;
  }
  return made;
}

std::vector<product> sixteen(product x) { return std::vector<product>(16, x); }

std::vector<probe> measured() {
  constexpr product nan{0xffc1, p(0)}, minus_zero{0x8000, p(0)};
  std::vector<probe> all{
      // The smallest alignment exponent is -133: the last bit kept is 2^-158.
      make("16 x 2^-152", sixteen(plus(-152)), 0, 0x00000002),
      make("2^-149 - 2^-158", {plus(-149), minus(-158)}, 0, 0x00000000),
      make("2^-149 - 2^-159", {plus(-149), minus(-159)}, 0, 0x00000001),
      make("2^-140 + 2^-160 - 2^-140", {plus(-140), plus(-160), minus(-140)}, 0, 0x00000000),
      make("2^-158 + 2^-158", {plus(-158), plus(-158)}, 0, 0x00000000),
      make("2^-150 + 2^-150", {plus(-150), plus(-150)}, 0, 0x00000001),
      make("1a80 x 1a00 twice: 2^-149 + 2^-149", {{0x1a80, 0x1a00}, {0x1a80, 0x1a00}}, 0, 0x00000002),
      // A product with a zero operand has no exponent.
      make("0 x 2^127 + 2^-30", {{0, p(127)}, {p(0), p(-30)}}, 0, 0x30800000),
      // Zero results are +0.
      make("-2^-150", {minus(-150)}, 0, 0x00000000),
      make("-2^-160", {minus(-160)}, 0, 0x00000000),
      make("-2^-149 + 2^-150", {minus(-149), plus(-150)}, 0, 0x00000000),
      make("16 x -0, c = -0", sixteen(minus_zero), 0x80000000, 0x00000000),
      make("16 x -0, c = +0", sixteen(minus_zero), 0, 0x00000000),
      make("c = -0 alone", {}, 0x80000000, 0x00000000),
      make("1 - 1", {plus(0), minus(0)}, 0, 0x00000000),
      // Subnormal results and c.
      make("2^-149", {plus(-149)}, 0, 0x00000001),
      make("-2^-149", {minus(-149)}, 0, 0x80000001),
      make("2^-126 + 3 x 2^-149 in c", {plus(-126)}, 0x00000003, 0x00800003),
      make("2^-149 + 2^-148 in c", {plus(-149)}, 0x00000002, 0x00000003),
      // Beyond FP32.
      make("16 x 2^127", sixteen(plus(127)), 0, 0x7f800000),
      make("2^100 x 2^100", {{p(100), p(100)}}, 0, 0x7f800000),
      make("2^100 x 2^100 - 2^100 x 2^100", {{p(100), p(100)}, {m(100), p(100)}}, 0, 0x00000000),
      // Infinity and NaN.
      make("infinity x 0", {{0x7f80, 0}}, 0, 0x7fffffff),
      make("NaN with sign and payload", {nan}, 0, 0x7fffffff),
  };
  // 2^-149 - 2^-w: 0 up to w = 158.
  for (int w = 150; w <= 165; ++w) all.push_back(make("2^-149 - 2^-w, w = 150 ... 165", {plus(-149), minus(-w)}, 0, w <= 158 ? 0u : 1u));
  return all;
}

std::vector<probe> worked_out() {
  constexpr product infinity{0x7f80, p(0)}, minus_infinity{0xff80, p(0)};
  return {
      make("2^200 - 2^200 + 1 in c: 1 is far below the quantum", {{p(100), p(100)}, {m(100), p(100)}}, c(0), 0x00000000),
      make("2^127 + 2^127 in c", {plus(127)}, c(127), 0x7f800000),
      make("2^127 + 2^127 (1 - 2^-24) in c", {plus(127)}, 0x7effffff, 0x7f7fffff),
      make("NaN in c", {plus(0)}, 0xffc12345, 0x7fffffff),
      make("infinity - infinity", {infinity, minus_infinity}, 0, 0x7fffffff),
      make("infinity, c = -infinity", {infinity}, 0xff800000, 0x7fffffff),
      make("infinity - 2^127", {infinity, minus(127)}, 0, 0x7f800000),
      make("-infinity + 2^127", {minus_infinity, plus(127)}, 0, 0xff800000),
      make("c = -infinity", {plus(0)}, 0xff800000, 0xff800000),
      make("2^127 + infinity x -0", {plus(127), {0x7f80, 0x8000}}, 0, 0x7fffffff),
      make("1 + 4 x 2^-25", {plus(0), plus(-25), plus(-25), plus(-25), plus(-25)}, 0, 0x3f800001),
      make("1 + 8 x 2^-26: each below the quantum", {plus(0), plus(-26), plus(-26), plus(-26), plus(-26), plus(-26), plus(-26), plus(-26), plus(-26)}, 0, 0x3f800000),
      // 1.5 x 1.5 takes part with exponent 0, not 1: with 1 the four terms would be cut to 0.
      make("1.5 x 1.5 + 8 x 2^-25", {{0x3fc0, 0x3fc0}, plus(-25), plus(-25), plus(-25), plus(-25), plus(-25), plus(-25), plus(-25), plus(-25)}, 0, 0x40100001),
  };
}

}  // namespace

std::span<probe const> h200_probes() {
  static const std::vector<probe> all = measured();
  return all;
}

std::span<probe const> worked_examples() {
  static const std::vector<probe> all = worked_out();
  return all;
}

}  // namespace testing
