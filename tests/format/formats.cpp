// Every format: its numbers, its codes, their values and how they are written, against the specification's numbers.
#include <cmath>
#include <string>
#include <string_view>

#include "rounding/formats.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using testing::numbers_of;

namespace {

/// Are the digits, read one by one, exactly ± whole·2^weight, none too many?
bool are_all_digits(std::string_view text, bool minus, std::uint64_t whole, int weight) {
  if (text.starts_with('-') != minus) return false;
  if (minus) text.remove_prefix(1);
  const std::size_t point = text.find('.');
  if (point != text.npos && (point == 0 || text.ends_with('0') || text.ends_with('.'))) return false;
  if (text.size() > 1 && text[0] == '0' && point != 1) return false;
  oracle::integer digits = 0, scale = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == point) continue;
    if (text[i] < '0' || text[i] > '9') return false;
    digits = digits * 10 + (text[i] - '0');
    if (point != text.npos && i > point) scale *= 10;
  }
  // digits / scale = whole·2^weight
  return weight >= 0 ? digits == (oracle::integer(whole) << unsigned(weight)) * scale : (digits << unsigned(-weight)) == oracle::integer(whole) * scale;
}

template <format F>
bool has_the_value(code<F> c, oracle::number_format const& f, std::uint32_t bits) {
  const decoded d = decode(c);
  const std::uint32_t magnitude = f.magnitude(bits);
  const number_class kind = f.is_nan(bits)                  ? number_class::nan
                            : f.is_infinite(bits)           ? number_class::infinite
                            : f.zero && magnitude == 0      ? number_class::zero
                            : magnitude < f.smallest_normal() ? number_class::subnormal
                                                            : number_class::normal;
  const bool finite = kind != number_class::nan && kind != number_class::infinite;
  if (d.kind != kind || c.is_nan() != (kind == number_class::nan) || c.is_infinite() != (kind == number_class::infinite) || c.is_finite() != finite ||
      c.is_zero() != (kind == number_class::zero) || c.is_subnormal() != (kind == number_class::subnormal))
    return false;
  if (kind == number_class::nan) return std::isnan(to_double(c));
  if (c.negative() != f.minus(bits) || d.negative != f.minus(bits)) return false;
  if (!finite) return to_double(c) == (f.minus(bits) ? -HUGE_VAL : HUGE_VAL);
  if (c != code<F>::from_magnitude(magnitude, f.minus(bits)) || c.magnitude() != magnitude) return false;
  const double value = std::ldexp(double(f.whole(magnitude)), f.weight(magnitude));
  return d.significand == f.whole(magnitude) && d.e - traits_of(F).fraction_bits() == f.weight(magnitude) && to_double(c) == (f.minus(bits) ? -value : value) &&
         std::signbit(to_double(c)) == f.minus(bits) && ulp_at<F>(to_double(c)) == std::ldexp(1.0, f.weight(magnitude));
}

template <format F>
bool is_negated(code<F> c, oracle::number_format const& f, std::uint32_t bits) {
  if constexpr (!traits_of(F).is_signed) return true;
  else return testing::oracle_code(c.negated()) == (!f.minus_zero && f.magnitude(bits) == 0 ? bits : bits ^ f.sign);
}

template <format F>
bool reads_back(code<F> c, oracle::number_format const& f, std::uint32_t bits) {
  if (parse<F>(hex_code(c)) != c || hex_code(c).size() != std::size_t(2 + (traits_of(F).width_bits + 3) / 4)) return false;
  std::string joined;
  for (char digit : fields(c))
    if (digit != ' ') joined += digit;
  if (std::stoul(joined, nullptr, 2) != bits || int(joined.size()) != traits_of(F).width_bits - f.padding) return false;
  if (c.is_nan()) return decimal(c) == "nan" && exact_decimal(c) == "nan" && hex_float(c) == "nan" && parse<F>("nan").is_nan();
  for (std::string const& text : {decimal(c), exact_decimal(c), hex_float(c)})
    if (parse<F>(text) != c) return false;
  return c.is_infinite() || are_all_digits(exact_decimal(c), f.minus(bits), f.whole(f.magnitude(bits)), f.weight(f.magnitude(bits)));
}

/// The number of `text` in F, or what the error says.
template <format F>
std::string read(std::string_view text) {
  try {
    return hex_code(parse<F>(text));
  } catch (parse_error const& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("formats: traits are those of the specifications", "[format]") {
  testing::for_each_format<format::bf16, format::f32, format::f16, format::tf32, format::e4m3fn, format::e5m2, format::e4m3fnuz, format::e5m2fnuz, format::e8m0, format::e2m1, format::e3m2, format::e2m3>(
      []<format F> {
        constexpr format_traits t = traits_of(F);
        constexpr oracle::number_format f = numbers_of<F>();
        INFO(t.name);
        CHECK(t.name == f.name);
        CHECK(t.precision() == f.fraction_width + 1);
        CHECK(t.bias() == f.bias);
        CHECK(t.largest_magnitude() == f.largest);
        CHECK(t.e_max() == f.weight(f.largest) + f.fraction_width);
        CHECK(t.e_min() == f.weight(f.smallest_normal()) + f.fraction_width);
        CHECK(t.has_infinity() == (f.infinity != oracle::none));
        CHECK(t.has_nan() == (f.nan != oracle::none));
        CHECK(t.has_negative_zero() == f.minus_zero);
        CHECK(t.is_signed == (f.sign != 0));
        CHECK(testing::oracle_code(code<F>::largest()) == f.largest);
        if constexpr (t.has_nan()) CHECK(testing::oracle_code(code<F>::nan()) == f.nan);
        if constexpr (t.has_infinity()) CHECK(testing::oracle_code(code<F>::infinity(true)) == f.sign + f.infinity);
        if constexpr (t.has_zero) CHECK(testing::oracle_code(code<F>::zero(true)) == (f.minus_zero ? f.sign : 0));
      });
  // The largest and the smallest numbers as the specifications write them.
  CHECK(to_double(f16_code::largest()) == 65504);
  CHECK(to_double(e4m3fn_code::largest()) == 448);
  CHECK(to_double(e5m2_code::largest()) == 57344);
  CHECK(to_double(e4m3fnuz_code::largest()) == 240);
  CHECK(to_double(e5m2fnuz_code::largest()) == 57344);
  CHECK(to_double(e2m1_code::largest()) == 6);
  CHECK(to_double(e3m2_code::largest()) == 28);
  CHECK(to_double(e2m3_code::largest()) == 7.5);
  CHECK(to_double(e8m0_code::largest()) == 0x1p127);
  CHECK(to_double(e4m3fn_code::from_magnitude(1)) == 0x1p-9);
  CHECK(to_double(e5m2fnuz_code::from_magnitude(1)) == 0x1p-17);
  CHECK(to_double(e8m0_code::from_magnitude(0)) == 0x1p-127);
}

TEST_CASE("formats: class, value, sign, ulp and text of all codes, every format but FP32", "[format]") {
  testing::for_each_format<format::bf16, format::f16, format::tf32, format::e4m3fn, format::e5m2, format::e4m3fnuz, format::e5m2fnuz, format::e8m0, format::e2m1, format::e3m2, format::e2m3>([]<format F> {
    testing::tally all(fmt::format("{}: all codes", traits_of(F).name));
    // Writing and reading TF32's 2^19 codes: every 17th.
    for (std::uint32_t bits = 0; bits < testing::code_count<F>(); ++bits) {
      const auto c = testing::library_code<F>(bits);
      const bool with_text = F != format::tf32 || bits % 17 == 0;
      all.expect(has_the_value(c, numbers_of<F>(), bits) && is_negated(c, numbers_of<F>(), bits) && (!with_text || reads_back(c, numbers_of<F>(), bits)),
                 [=] { return fmt::format("{:x}", bits); });
    }
    all.check();
  });
}

TEST_CASE("from_bits: bits that are not the format's are cut off", "[format]") {
  CHECK(tf32_code::from_bits(0x3f801fff).to_bits() == 0x3f800000);
  CHECK(tf32_code::from_bits(0x7f801fff).is_infinite());  // a NaN by its low bits only: a tensor core reads infinity
  CHECK(e2m1_code::from_bits(0xf7) == e2m1_code::from_bits(0x7));
  CHECK(sizeof(tf32_code) == 4);
  CHECK(sizeof(f16_code) == 2);
  CHECK(sizeof(e2m1_code) == 1);
}

TEST_CASE("text: fields, hex float and all digits, spot values", "[format][golden]") {
  const auto c = bf16_code::from_bits(0xc097);
  CHECK(fields(c) == "1 10000001 0010111");
  CHECK(hex_float(c) == "-0x1.2ep+2");
  CHECK(exact_decimal(c) == "-4.71875");
  CHECK(fields(tf32_code::from_bits(0x3f802000)) == "0 01111111 0000000001");
  CHECK(fields(e8m0_code::from_bits(0x7f)) == "01111111");
  CHECK(fields(e2m1_code::from_bits(0xb)) == "1 01 1");
  CHECK(fields(e4m3fnuz_code::nan()) == "1 0000 000");
  CHECK(exact_decimal(f16_code::from_bits(1)) == "0.000000059604644775390625");
  CHECK(exact_decimal(f32_code::from_bits(0x3dcccccd)) == "0.100000001490116119384765625");
  CHECK(decimal(f32_code::from_bits(0x3dcccccd)) == "0.10000000149011612");
  CHECK(exact_decimal(f32_code::from_bits(0x7f7fffff)) == "340282346638528859811704183484516925440");
  CHECK(exact_decimal(f32_code::from_bits(0x80000001)).size() == 2 + 1 + 149);
  CHECK(exact_decimal(f32_code::zero(true)) == "-0");
  CHECK(hex_float(f32_code::zero()) == "0x0p+0");
  CHECK(hex_float(f32_code::infinity(true)) == "-inf");
  CHECK(binary(e8m0_code::from_bits(0x80)) == "1 × 2^1");
  CHECK(binary(e2m1_code::from_bits(0x1)) == "0.1 × 2^0");
}

TEST_CASE("parse: what a format cannot hold, with what it can", "[format]") {
  CHECK(read<format::f16>("65504") == "0x7BFF");
  CHECK(read<format::f16>("0x3f800000") == "0x3C00");  // an FP32 code
  CHECK(read<format::f16>("65505") == "'65505' is not an FP16 number; its neighbours are 0x7BFF (65504) and 0x7C00 (inf)");
  CHECK(read<format::tf32>("0x3f800001") == "0x3F800000");
  CHECK(read<format::e4m3fn>("-448") == "0xFE");
  CHECK(read<format::e4m3fn>("449") == "'449' is not an E4M3FN number; the largest is 0x7E (448)");
  CHECK(read<format::e4m3fn>("-inf") == "'-inf': E4M3FN has no infinity, its largest number is 0xFE (-448)");
  CHECK(read<format::e4m3fnuz>("-0") == "0x00");
  CHECK(read<format::e2m1>("nan") == "'nan': E2M1 has no NaN");
  CHECK(read<format::e2m1>("2.5") == "'2.5' is not an E2M1 number; its neighbours are 0x4 (2) and 0x5 (3)");
  CHECK(read<format::e2m1>("0x7") == "0x7");
  CHECK(read<format::e2m1>("0x07") == "'0x07': an E2M1 code has 1 hex digit, an FP32 code eight");
  CHECK(read<format::e8m0>("0.5") == "0x7E");
  CHECK(read<format::e8m0>("-1") == "'-1' is not an E8M0 number; the smallest is 0x00 (5.877471754111438e-39)");
  CHECK(read<format::e8m0>("0") == "'0' is not an E8M0 number; the smallest is 0x00 (5.877471754111438e-39)");
  CHECK(read<format::f32>("0.1") == "0x3DCCCCCD");
}
