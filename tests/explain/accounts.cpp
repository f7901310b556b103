// Accounts of single operations: their codes, errors and steps, against the bits that the operations give.
#include "support/accounts.hpp"

#include <fmt/format.h>

#include <cmath>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/explain/operations.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

TEST_CASE("account of add: the paper's sticky bit flips the error's sign (N1)", "[explain][golden]") {
  // @source arXiv 2510.04212, the bit-level example
  const account with = sum_account({"-2.40625", "-0.0008654594421386719", "-2.296875"});
  CHECK(with.size() == 3);
  CHECK(result_bits(with) == 0xC097);
  CHECK(last_error(with) == -0.014759540557861328);
  CHECK(with.value_of(1) == -4.703990459442139);
  const account without = sum_account({"-2.40625", "-2.296875"});
  CHECK(result_bits(without) == 0xC096);
  CHECK(last_error(without) == 0.015625);
}

TEST_CASE("account of add: BF16 ties are unbiased, a left-over of one sign biases them by a quarter ulp (N2), all 16384 significand pairs", "[explain][golden]") {
  const f32_code left_over = parse_f32("0x1p-19");  // 2^-13 ulp of the sum
  double none = 0, same = 0, opposite = 0;
  int pairs = 0;
  for (std::uint32_t i = 0; i < 128; ++i)
    for (std::uint32_t j = 0; j < 128; ++j, ++pairs) {
      const f32_code x = f32_code::from_bits(0xbf800000 | i << 16), y = f32_code::from_bits(0xbf800000 | j << 16);
      const auto error = [&](std::vector<f32_code> const& operands) {
        const account a = account_of_add(operands, format::bf16);
        return a.error_in_ulp(a.size() - 1);
      };
      none += error({x, y});
      same += error({x, left_over.negated(), y});
      opposite += error({x, left_over, y});
    }
  fmt::print("{} pairs: mean error {} ulp, with a left-over of their sign {}, of the other {}\n", pairs, none / pairs, same / pairs, opposite / pairs);
  CHECK(pairs == 16384);
  CHECK(none == 0);
  CHECK(fmt::format("{:.4f} {:.4f}", same / pairs, opposite / pairs) == "-0.2499 0.2499");
}

TEST_CASE("account of dot: 1 + 4·2^-25 on Hopper, Ampere and in FP32 (N10)", "[explain][golden]") {
  const std::vector<const char*> terms{"1", "0x1p-25", "0x1p-25", "0x1p-25", "0x1p-25"};
  CHECK(result_bits(dot_account("sm90.mma.bf16.f32", terms)) == 0x3f800001);
  CHECK(result_bits(dot_account("sm80.mma.bf16.f32", terms)) == 0x3f800000);
  CHECK(result_bits(sum_account(terms, format::f32)) == 0x3f800000);
  CHECK(dot_account("sm80.mma.bf16.f32", terms).error_in_ulp(0) == -1);
}

TEST_CASE("account of dot: 16 steps of 1.5·2^-24 on 1: truncation loses 12 ulp, rounding gains 4 (N11)", "[explain][golden]") {
  std::vector<bf16_code> a(256), b(256, parse_bf16("1"));
  std::vector<f32_code> added{parse_f32("1")};
  for (std::size_t block = 0; block < 16; ++block) {
    a[16 * block] = parse_bf16("0x1.8p-24");
    added.push_back(parse_f32("0x1.8p-24"));
  }
  const account hopper = account_of_dot<format::bf16>(unit_named("sm90.wgmma.bf16.f32"), a, b, parse_f32("1"));
  CHECK(hopper.size() == 16);
  CHECK(result_bits(hopper) == 0x3f800000);
  CHECK(hopper.error_in_ulp(15) == -12);
  const account fp32 = account_of_add(added, format::f32);
  CHECK(result_bits(fp32) == 0x3f800010);
  CHECK(fp32.error_in_ulp(15) == 4);
}

TEST_CASE("account of fma: one rounding is not two (N29)", "[explain][golden]") {
  const auto bits = [](const char* x) { return std::uint32_t{parse_bf16(x).to_bits()}; };
  const fma_accounts n29 = accounts_of_fma(format::bf16, bits("1.75"), bits("0.578125"), bits("-0x1p-40"));
  CHECK(n29.fused.value_of(0) == 1.0078125);
  REQUIRE(n29.through_f32);
  CHECK(n29.through_f32->value_of(1) == 1.015625);
  CHECK(n29.unfused.value_of(1) == 1.015625);
  CHECK(!accounts_of_fma(format::f32, 0x3f800000, 0x3f800000, 0).through_f32);
  CHECK_THROWS_AS(accounts_of_fma(format::e5m2, 0, 0, 0), std::invalid_argument);
}

TEST_CASE("account of dot: every chain ends with the code of inner_product, 1 to 70 products on 4 BF16 units, 2 on an FP16 one", "[explain][property]") {
  for (const char* name : {"sm80.mma.bf16.f32", "sm90.wgmma.bf16.f32", "sm90.mma.bf16k8.f32", "sm90.mma.bf16.f32"}) {
    machine_unit const& unit = unit_named(name);
    for (std::size_t n = 1; n <= 70; n += 3) {
      std::vector<bf16_code> a, b;
      for (std::uint32_t i = 0; i < n; ++i) {
        a.push_back(bf16_code::from_bits(std::uint16_t(0x3e00 + 37 * i + 11 * n)));
        b.push_back(bf16_code::from_bits(std::uint16_t(0xbe40 + 53 * i * (i % 2 == 0 ? 1 : 600))));
      }
      const f32_code c = parse_f32("0.1");
      const account told = account_of_dot<format::bf16>(unit, a, b, c);
      REQUIRE(result_bits(told) == inner_product<format::bf16>(unit, std::span<bf16_code const>(a), std::span<bf16_code const>(b), c).to_bits());
      REQUIRE(!replay(told));
    }
  }
  const std::vector<f16_code> half{f16_code::from_bits(0x3c01), f16_code::from_bits(0x4000)};
  CHECK(result_bits(account_of_dot<format::f16>(unit_named("sm90.wgmma.f16.f16"), half, half, f32_code::zero())) ==
        inner_product<format::f16>(unit_named("sm90.wgmma.f16.f16"), std::span<f16_code const>(half), std::span<f16_code const>(half), f32_code::zero()).to_bits());
}

TEST_CASE("account of dot: a unit with FP16 output errs in ulp of FP16", "[explain]") {
  const std::vector<f16_code> a{parse<format::f16>("1"), parse<format::f16>("0x1p-12")}, b(2, parse<format::f16>("1"));
  const account told = account_of_dot<format::f16>(unit_named("sm90.wgmma.f16.f16"), a, b, f32_code::zero());
  CHECK(told.error_in_ulp(0) == -0.25);
  CHECK(told.own_error_in_ulp(0) == -0.25);
  CHECK(share_error(told).steps[0] == -0.25);
}

TEST_CASE("account of gemm: 64 elements have the recorded code; split K adds slices", "[explain][golden]") {
  const tensor_file file = golden("gemm_128_128_64.safetensors");
  const gemm_operands operands = read_gemm_operands<>(file);
  const auto d = file.require("torch.d_f32", dtype::f32).elements<f32_code>();
  machine_unit const& unit = unit_named("sm90.wgmma.bf16.f32");
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::int64_t row = 2 * i, column = (37 * i) % 128;
    const account a = account_of_gemm(unit, operands.problem(), 1, row, column);
    REQUIRE(result_bits(a) == d[std::size_t(row * 128 + column)].to_bits());
  }
  std::vector<bf16_code> x(3 * 300), y(2 * 300);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16_code::from_bits(std::uint16_t(0x3f00 + 29 * i % 256 + (i % 3 == 0 ? 0x8000 : 0)));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = bf16_code::from_bits(std::uint16_t(0x3f00 + 31 * i % 256));
  const gemm_problem p{.m = 3, .n = 2, .k = 300, .a = x, .b = y, .c = {}};
  for (int slices : {1, 2, 3, 5}) {
    const std::vector<f32_code> all = gemm(unit, p, slices);
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t column = 0; column < 2; ++column) REQUIRE(result_bits(account_of_gemm(unit, p, slices, row, column)) == all[std::size_t(row * 2 + column)].to_bits());
  }
  CHECK_THROWS_AS(account_of_gemm(unit, p, 1, 3, 0), std::out_of_range);
  CHECK_THROWS_AS(account_of_gemm(unit, p, 1, 0, -1), std::out_of_range);
}

TEST_CASE("accounts: replay gives the same codes, and finds a changed operand", "[explain]") {
  account a = sum_account({"1.5", "0x1p-20", "3", "-0.1"});
  REQUIRE(a.size() == 4);
  CHECK(!replay(a));
  a.claim(1, a[1].bits + 1);
  CHECK(replay(a) == 1u);  // the step itself; what follows would be next
  account given(*sm90().special_functions);
  const std::int32_t x = given.input(format::f32, 0x3f800000, {1, 0}, {"S", 3});
  static_cast<void>(given.record({.op = operation::ex2}, std::vector{account_operand{.step = x}}));
  CHECK(!replay(given));
  given.claim(0, 0x40000000);
  CHECK(replay(given) == 1u);
}

TEST_CASE("accounts: what each rounding is worth adds up to the error of the result", "[explain][property]") {
  const account sum = sum_account({"0.1", "0.2", "-0.7", "1e-3", "12.34"});
  const account dot = dot_account("sm90.mma.bf16.f32", std::vector<const char*>(40, "0x1.36p-7"));
  for (account const* a : {&sum, &dot}) {
    const error_shares w = share_error(*a);
    double total = w.of_constants();
    for (double x : w.steps) total += x;
    CHECK(std::fabs(total - a->error_in_ulp(a->size() - 1)) < 1e-9);
  }
  CHECK(share_error(sum).deciding == sum.size() - 1);  // the cast
}

TEST_CASE("accounts: refusals", "[explain]") {
  CHECK_THROWS_AS(account_of_add(std::vector{parse_f32("1")}, format::bf16), std::invalid_argument);
  const std::vector<bf16_code> one(1), two(2);
  CHECK_THROWS_AS(account_of_dot<format::bf16>(unit_named("sm90.mma.bf16.f32"), one, two, f32_code::zero()), shape_error);
  CHECK_THROWS_AS(account_of_dot<format::bf16>(unit_named("sm90.mma.f16.f32"), one, one, f32_code::zero()), shape_error);
  CHECK_THROWS_AS(account_of_dot<format::bf16>(unit_named("sm90.mma.bf16.f32"), {}, {}, f32_code::zero()), shape_error);
  CHECK_THROWS_AS(account_of_function(operation::add, f32_code::zero()), std::invalid_argument);
  CHECK_THROWS_AS(account_of_cast(f32_code::zero(), format::bf16, rounding::stochastic), std::invalid_argument);
  CHECK_THROWS_AS(tell(account(*sm90().special_functions), detail_level::screen), std::invalid_argument);
}
