// The words of one rounding, in every mode and at every edge of a format.
#include "support/accounts.hpp"

#include <fmt/format.h>

#include "stickybit/explain/teller.hpp"
#include "stickybit/format/text.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

std::string cast_text(const char* x, rounding mode, format to = format::bf16, subnormals s = subnormals::kept) {
  const account a = account_of_cast(parse_f32(x), to, mode, s);
  return flat(tell_step(a, 0));
}

std::string flat_tell(account const& a, detail_level level) { return flat(tell(a, level)); }

}  // namespace

TEST_CASE("words: the rule of every mode, both signs, each tail", "[explain][golden]") {
  struct expected {
    const char* x;
    rounding mode;
    const char *rule, *result;
  };
  // BF16 has 7 fraction bits: an ulp of 1 is 2^-7.
  for (expected const& e : {
           expected{"0x1.00cp0", rounding::nearest_even, "round bit 0, sticky bit 1: less than half: stays", "0x3F80"},
           expected{"0x1.01cp0", rounding::nearest_even, "round bit 1, sticky bit 1: more than half: grows by one ulp", "0x3F81"},
           expected{"0x1.01p0", rounding::nearest_even, "round bit 1, sticky bit 0: exactly half, a tie; the last kept bit is 0, already even: stays", "0x3F80"},
           expected{"0x1.03p0", rounding::nearest_even, "exactly half, a tie; the last kept bit is 1, odd: grows to the even neighbour", "0x3F82"},
           expected{"0x1.01p0", rounding::nearest_away, "exactly half, a tie: nearest_away grows by one ulp", "0x3F81"},
           expected{"0x1.01cp0", rounding::toward_zero, "toward zero: what is cut is lost, stays", "0x3F80"},
           expected{"0x1.001p0", rounding::toward_positive, "toward +infinity, and something is cut: grows by one ulp", "0x3F81"},
           expected{"-0x1.01cp0", rounding::toward_positive, "toward +infinity, and the number is negative: what is cut is lost, stays", "0xBF80"},
           expected{"-0x1.001p0", rounding::toward_negative, "toward -infinity, and something is cut: grows by one ulp", "0xBF81"},
           expected{"0x1.01cp0", rounding::toward_negative, "toward -infinity, and the number is positive: what is cut is lost, stays", "0x3F80"},
           expected{"0x1.001p0", rounding::to_odd, "to odd: something is cut and the last kept bit is 0: it becomes 1", "0x3F81"},
           expected{"0x1.021p0", rounding::to_odd, "to odd: the last kept bit is 1, odd already: stays", "0x3F81"},
           expected{"1.5", rounding::toward_positive, "exact: nothing is cut", "0x3FC0"},
       }) {
    const std::string text = cast_text(e.x, e.mode);
    CHECK_THAT(text, Contains(e.rule) && Contains(fmt::format(" = {}", e.result)));
  }
}

TEST_CASE("words: direction and sign of the error", "[explain]") {
  CHECK_THAT(cast_text("-0x1.01cp0", rounding::nearest_even), Contains("away from zero (down, to the smaller number)") && Contains("(-0.125 ulp)"));
  CHECK_THAT(cast_text("-0x1.004p0", rounding::nearest_even), Contains("toward zero (up, to the larger number)") && Contains("(+0.125 ulp)"));
  // Next to a tie the ulp does not read as a half.
  CHECK_THAT(cast_text("0x1.00fffep0", rounding::nearest_even), Contains("(-0.499984741211 ulp)"));
}

TEST_CASE("words: overflow, subnormal results, flushes, zeros, infinities, NaN", "[explain][golden]") {
  CHECK_THAT(cast_text("3.4e38", rounding::nearest_even), Contains("beyond the largest finite number of bf16: becomes inf") && Contains("= 0x7F80"));
  CHECK_THAT(cast_text("3.4e38", rounding::toward_zero, format::f16), Contains("beyond the largest finite number of f16: stops there, at 65504"));
  CHECK_THAT(cast_text("1e6", rounding::nearest_even, format::e4m3fn), Contains("beyond the largest finite number of e4m3fn: becomes nan"));
  CHECK_THAT(cast_text("0x1.8p-134", rounding::nearest_even), Contains("below the normal numbers of bf16: the last bit that counts stands for 2^-133"));
  CHECK_THAT(cast_text("0x1.8p-134", rounding::nearest_even, format::bf16, subnormals::flushed), Contains("flushed to the zero of its sign") && Contains("= 0x0000"));
  CHECK_THAT(cast_text("-0", rounding::nearest_even), Contains("exact: nothing is cut") && Contains("= 0x8000 -0"));
  CHECK_THAT(cast_text("-inf", rounding::nearest_even), Contains("an operand is infinite, so is the result") && Contains("0xFF80"));
  CHECK_THAT(cast_text("0x7fc00001", rounding::nearest_even), Contains("an operand is NaN, so is the result") && Contains("0x7FFF"));
  CHECK_THAT(tell_step(sum_account({"inf", "-inf"}), 0), Contains("no number is the answer"));
  CHECK_THAT(flat_tell(sum_account({"3e38", "3e38"}), detail_level::screen), Contains("The result is inf (bf16 0x7F80)") && Contains("The first step that is no finite number is partial sum 1"));
  CHECK_THAT(flat_tell(sum_account({"1", "2"}), detail_level::screen), Contains("The result is 3 (bf16 0x4040). That is the exact value."));
  const std::string f32 = flat_tell(sum_account({"16777216", "1"}, format::f32), detail_level::screen);
  CHECK_THAT(f32, Contains("The result is 16777216 (f32 0x4B800000)") && Contains("the error is -1 = -0.5 ulp"));
}

TEST_CASE("words of a block: Hopper keeps two bits below FP32's last, and says what it drops", "[explain][golden]") {
  const std::string text = flat_tell(dot_account("sm90.wgmma.bf16.f32", {"1", "0x1p-25", "0x1p-25", "0x1p-25", "0x1p-25"}), detail_level::screen);
  CHECK_THAT(text, Contains("E = 0, quantum 2^-25: the sum is 33554436 quanta = 1.0000001192092896") && Contains("k = 5 to 15 and c: zero, no part in the alignment"));
  const std::string lost = flat_tell(dot_account("sm90.wgmma.bf16.f32", {"1", "-0x1p-26"}), detail_level::screen);
  CHECK_THAT(lost, Contains("all lost: 100000000000000 (-0.5 quanta)") && Contains("the alignment at 2^-25 cuts 1 of its terms"));
  CHECK_THAT(flat_tell(dot_account("sm90.wgmma.bf16.f32", {"0x7f80", "-inf"}), detail_level::screen), Contains("decided by NaN") && Contains("0x7FFFFFFF"));
  CHECK_THAT(flat_tell(dot_account("sm90.wgmma.bf16.f32", {"-inf"}), detail_level::screen), Contains("decided by an infinity") && Contains("-inf"));
  CHECK_THAT(flat_tell(dot_account("sm90.wgmma.bf16.f32", {"0x0001"}), detail_level::screen), Contains("E = -126"));
  CHECK_THAT(flat_tell(dot_account("sm90.wgmma.bf16.f32", {"0"}, "0x00000001"), detail_level::screen), Contains("the sum is 4 quanta = 1.401298464324817e-45") && Contains("0x00000001"));
}
