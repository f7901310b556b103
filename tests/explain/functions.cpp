// What is told of elementary functions reproduces their codes.
#include "support/accounts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "stickybit/explain/operations.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

special_function_tables const& tables() { return *sm90().special_functions; }

std::int64_t sum_of_terms(interpolated const& e) { return (e.constant_term + e.linear_term + e.square_term + e.rounding_constant) >> e.cut_bits; }

/// ± significand·2^exponent of a MUFU result below the normal numbers is a zero.
double packed_value(double value) { return std::fabs(value) < 0x1p-126 ? 0 : value; }

double told_value(operation f, interpolated const& e) {
  const std::int64_t kept = sum_of_terms(e);
  if (f != operation::lg2) return packed_value(std::ldexp(double(kept), e.result_exponent - 23));
  const std::int64_t fixed = kept + (std::int64_t{e.exponent} << 36);
  const auto magnitude = std::uint64_t(fixed < 0 ? ~fixed : fixed);
  const int drop = std::max(0, bit_width_of(magnitude) - 24);
  return (fixed < 0 ? -1 : 1) * packed_value(std::ldexp(double(magnitude >> drop), drop - 36));
}

std::string told(operation f, const char* x) { return flat(tell(account_of_function(f, parse_f32(x)), detail_level::screen)); }

}  // namespace

TEST_CASE("MUFU events: the three terms and the rounding constant give the code, 100000 random operands of ex2, rcp, lg2 and rsqrt", "[explain][property]") {
  std::mt19937 random(20261130);
  std::size_t evaluated = 0;
  for (int n = 0; n < 100000; ++n) {
    // Half of any size, half where ex2 is neither 0 nor infinity.
    const std::uint32_t any = std::uint32_t(random());
    const f32_code x = f32_code::from_bits(n % 2 == 0 ? any : (any & 0x80ffffff) | (0x3a000000 + (any >> 3 & 0x07000000)));
    for (operation f : {operation::ex2, operation::rcp, operation::lg2}) {
      const account a = account_of_function(f, x);
      step_events events;
      const f32_code result = f32_code::from_bits(a.carry_out(0, &events));
      REQUIRE(result.to_bits() == a[0].bits);
      for (interpolated const& e : events.all<interpolated>()) {
        ++evaluated;
        const double sign = f == operation::rcp && x.negative() ? -1 : 1;
        REQUIRE(sign * told_value(f, e) == to_double(result));
        REQUIRE((f != operation::ex2 || x.is_subnormal() || std::fabs(e.exponent + std::ldexp(e.fraction, -23) - to_double(x)) <= 0x1p-23));
      }
    }
    recorder<interpolated> events;
    const f32_code root = rsqrt(tables(), x, events);
    REQUIRE(root.to_bits() == rsqrt(tables(), x).to_bits());
    for (interpolated const& e : events.all<interpolated>()) REQUIRE(packed_value(std::ldexp(double(sum_of_terms(e)), e.result_exponent - 23)) == to_double(root));
  }
  fmt::print("seed 20261130, 100000 operands, {} evaluations of ex2, rcp, lg2\n", evaluated);
  CHECK(evaluated > 100000);
}

TEST_CASE("CUDA's functions: a sink changes no code, and the last inner results give it, 20000 random operands", "[explain][property]") {
  std::mt19937 random(7);
  for (int n = 0; n < 20000; ++n) {
    const f32_code x = f32_code::from_bits(std::uint32_t(random()));
    recorder<function_step> e, l, l2, p;
    REQUIRE(cuda_expf(tables(), x, e) == cuda_expf(tables(), x));
    REQUIRE(cuda_logf(x, l) == cuda_logf(x));
    REQUIRE(cuda_log2f(x, l2) == cuda_log2f(x));
    REQUIRE(exp2_keeping_subnormals(tables(), x, p) == exp2_keeping_subnormals(tables(), x));
    const auto parts = e.all<function_step>();
    REQUIRE(parts.size() == 7);
    REQUIRE(mul(parts[5].value, parts[6].value, subnormals::kept) == cuda_expf(tables(), x));
    if (const auto log_parts = l2.all<function_step>(); !log_parts.empty()) REQUIRE(add(log_parts[0].value, log_parts[2].value, subnormals::kept) == cuda_log2f(x));
  }
}

TEST_CASE("explain exp2: 0, -0, 1, 128, -126.5, NaN, infinities, subnormals", "[explain][golden]") {
  for (const char* zero : {"0", "-0", "0x00000001", "0x80000001"}) CHECK_THAT(told(operation::ex2, zero), Contains("The result is 1 (f32 0x3F800000)"));
  CHECK_THAT(told(operation::ex2, "0"), Contains("That is the exact value") && Contains("n = 0, f = 0 = 0.00000000000000000000000"));
  CHECK_THAT(told(operation::ex2, "1"), Contains("The result is 2 (f32 0x40000000)") && Contains("n = 1, f = 0"));
  CHECK_THAT(told(operation::ex2, "128"), Contains("The result is inf (f32 0x7F800000)") && Contains("x >= 128: infinity"));
  CHECK_THAT(told(operation::ex2, "-126.5"), Contains("The result is 0 (f32 0x00000000)") && Contains("subnormal, so 0") && Contains("toward zero"));
  CHECK_THAT(told(operation::exp2, "-126.5"), Contains("to be squared") && Contains("below the normal numbers of f32"));
  CHECK_THAT(told(operation::ex2, "nan"), Contains("The result is nan (f32 0x7FFFFFFF)") && Contains("NaN, so is the result"));
  CHECK_THAT(told(operation::ex2, "-inf"), Contains("The result is 0 (f32 0x00000000)"));
  CHECK_THAT(told(operation::rcp, "-0"), Contains("The result is -inf"));
  CHECK_THAT(told(operation::rcp, "-4"), Contains("The result is -0.25") && Contains("That is the exact value"));
  CHECK_THAT(told(operation::lg2, "-1"), Contains("The result is nan") && Contains("negative number"));
  CHECK_THAT(told(operation::lg2, "1"), Contains("The result is 0") && Contains("log(1) = 0"));
  CHECK_THAT(told(operation::logf, "0"), Contains("The result is -inf"));
}

TEST_CASE("explain exp2: a golden polynomial", "[explain][golden]") {
  const std::string text = told(operation::ex2, "-3.3");
  for (const char* words : {"The result is 0.10153155028820038 (f32 0x3DCFEFC6)", "-0.3506 ulp", "n = -4", "segment 44 of 64", "a = 54039088, b = 36579, c = 796", "442688208896", "3835564203", "16692120",
                            "30690", "446540495909 110011111110111111000110 | 011110000100101", "13627334·2^-27"})
    CHECK_THAT(text, Contains(words));
  const std::string expf = told(operation::expf, "-3.3");
  for (const char* words : {"the power of two, as a number", "EX2 of it", "0.03125", "The result is 0.036883171647787094"}) CHECK_THAT(expf, Contains(words));
}
