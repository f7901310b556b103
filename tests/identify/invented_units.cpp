// Units that nobody builds: each gets a file from its answers, and the file's unit computes what the unit does.
#include <fmt/format.h>

#include "identify/unit_cases.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

constexpr int compared_cases = 100'000;

machine_unit usual(format input, format output, int k, int block_size, int fraction_bits) {
  machine_unit u{.name = "invented", .instruction = "none", .input = input, .output = output, .block_size = block_size, .alignment_fraction_bits = fraction_bits,
                 .min_alignment_exponent = output == format::f16 ? -21 : -133, .output_rounding = output == format::f16 ? rounding::nearest_even : rounding::toward_zero,
                 .accumulator = accumulator_place::aligned, .facts = {}};
  u.instruction_k = k;
  return u;
}

/// Identified by no known unit, described by a file, and the file's unit is the same.
void check_invented(std::string const& what, machine_unit const& unit) {
  const auto box = emulated_unit(unit);
  const unit_identification found = identify_unit(*box);
  INFO(what << ": " << found.failure);
  CHECK(found.known.empty());
  REQUIRE(found.description);
  const auto read = parse_unit(unit_json(found.description->unit, what), what);
  detail::case_maker maker(formats_of(unit), 2024);
  std::int64_t different = 0;
  for (int i = 0; i < compared_cases; ++i) {
    const unit_case x = maker.make(detail::all_kinds);
    different += result_of(unit, x) != result_of(read->unit, x);
  }
  CHECK(different == 0);
}

std::vector<std::uint8_t> bit_reversed(int bits) {
  std::vector<std::uint8_t> places;
  for (int i = 0; i < 1 << bits; ++i) {
    int reversed = 0;
    for (int b = 0; b < bits; ++b) reversed |= (i >> b & 1) << (bits - 1 - b);
    places.push_back(std::uint8_t(reversed));
  }
  return places;
}

}  // namespace

TEST_CASE("identify unit: invented blocks and orders, a file each, 10^5 hard cases", "[identify]") {
  check_invented("four blocks of 6", usual(format::bf16, format::f32, 24, 6, 21));
  check_invented("two blocks of 12, F = 7", usual(format::f16, format::f32, 24, 12, 7));
  const std::vector<std::uint8_t> reversed = bit_reversed(4);
  machine_unit u = usual(format::bf16, format::f32, 16, 4, 30);
  u.permutation = reversed;
  check_invented("bit-reversed k in blocks of 4, F = 30", u);
  const std::vector<std::uint8_t> uneven{5, 7, 0, 1, 2, 3, 4, 6, 8, 9, 10, no_product, no_product, no_product};
  u = usual(format::f16, format::f32, 11, 7, 24);
  u.permutation = uneven;
  check_invented("7 products, then 4", u);
  u = usual(format::bf16, format::f32, 16, 4, 25);
  u.join = block_join::tree;
  check_invented("blocks that start from 0, added in pairs", u);
  u.join = block_join::sequential;
  u.accumulator = accumulator_place::added_last;
  u.addition_rounding = rounding::toward_zero;
  check_invented("blocks that start from 0, added in order toward zero, c last", u);
}

TEST_CASE("identify unit: invented roundings, a file each, 10^5 hard cases", "[identify]") {
  machine_unit u = usual(format::bf16, format::f32, 16, 16, 25);
  u.output_rounding = rounding::nearest_even;
  check_invented("nearest even", u);
  u.alignment_rounding = rounding::toward_negative;
  check_invented("terms cut toward minus infinity", u);
  u = usual(format::f16, format::f32, 16, 8, 26);
  u.alignment_rounding = rounding::to_odd;
  check_invented("a sticky bit", u);
  u = usual(format::bf16, format::f32, 8, 8, 24);
  u.normalizes_products = true;
  check_invented("normalised products", u);
  u = usual(format::e4m3fn, format::f32, 32, 16, 20);
  u.output_fraction_bits = 17;
  u.shortens_c = true;
  check_invented("17 bits, c too", u);
  u = usual(format::tf32, format::f32, 8, 4, 23);
  u.tf32_rounding = rounding::nearest_away;
  check_invented("TF32 rounded", u);
  u = usual(format::f16, format::f16, 16, 16, 22);
  u.output_rounding = rounding::toward_zero;
  u.keeps_wide_c = true;
  check_invented("FP16 toward zero, c in FP32", u);
}

TEST_CASE("identify unit: invented ends of the range, a file each, 10^5 hard cases", "[identify]") {
  machine_unit u = usual(format::bf16, format::f32, 8, 8, 25);
  u.min_alignment_exponent = -126;
  u.flushes_operands = u.flushes_c = u.flushes_results = true;
  check_invented("flushes everything", u);
  u = usual(format::bf16, format::f32, 8, 8, 25);
  u.min_alignment_exponent = -1100;
  u.keeps_negative_zero = u.keeps_underflow_sign = true;
  check_invented("no clamp, zeros keep their sign", u);
  u = usual(format::bf16, format::f32, 16, 16, 24);
  u.zero_products_in_maximum = u.zero_c_in_maximum = true;
  u.negative_cancellation = true;
  check_invented("zeros have exponents, x - x is -0", u);
  u = usual(format::e5m2, format::f32, 16, 16, 25);
  u.beyond = overflow::saturate;
  u.nan_bits = 0xffc00000;
  check_invented("overflow to the largest number, another NaN", u);
}
