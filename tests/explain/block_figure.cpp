// The picture of a block says the bits that the block has: each row's number is the term's, kept and lost parts together.
#include "stickybit/explain/block_figure.hpp"

#include <fmt/format.h>

#include <cmath>

#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

double value_of(figure::bit_row const& r, std::string const& bits) {
  double v = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) v += bits[i] == '1' ? std::ldexp(1.0, r.top_exponent - int(i)) : 0;
  return r.negative ? -v : v;
}
double value_of(figure::bit_row const& r) { return value_of(r, r.bits); }

template <format In>
std::vector<code<In>> operands(std::size_t n, std::uint64_t& state) {
  std::vector<code<In>> codes;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = std::uint16_t(state >> 48);
    // Signs and fractions as they come; BF16 exponents 2^-20 to 2^11, FP16 all finite.
    codes.push_back(code<In>::from_bits(In == format::bf16 ? std::uint16_t((bits & 0x807f) | ((107 + (bits >> 7) % 32) << 7)) : std::uint16_t(bits & 0xbbff)));
  }
  return codes;
}

template <format In>
std::int64_t check_blocks(machine_unit const& unit, int blocks) {
  std::uint64_t state = 7;
  std::int64_t rows = 0;
  for (int block = 0; block < blocks; ++block) {
    const auto n = std::size_t(unit.block_size);
    const auto a = operands<In>(n, state), b = operands<In>(n, state);
    const f32_code c = code_of(float(std::ldexp(double(block % 7) - 3.25, block % 40 - 25)));
    const auto data = block_figure<In>(unit, std::span<code<In> const>(a), std::span<code<In> const>(b), c);
    CAPTURE(unit.name, block);
    REQUIRE(data.terms.size() == n + 1);
    CHECK(value_of(data.terms[0]) == to_double(c));
    double sum = 0;
    for (std::size_t i = 0; i <= n; ++i) {
      figure::bit_row const& r = data.terms[i];
      if (i > 0) CHECK(value_of(r) == to_double(a[i - 1]) * to_double(b[i - 1]));
      const int below = r.bits.empty() ? 0 : data.quantum_exponent - (r.top_exponent - int(r.bits.size()) + 1);  // bits below the quantum
      CHECK(int(r.bits.size()) - r.kept == std::clamp(below, 0, int(r.bits.size())));
      sum += value_of(r, r.bits.substr(0, std::size_t(r.kept)));
      ++rows;
    }
    CHECK(value_of(*data.sum) == sum);
    CHECK(data.sum->kept == std::min(24, int(data.sum->bits.size())));
    const f32_code result = block_fma<In>(unit, std::span<code<In> const>(a), std::span<code<In> const>(b), c);
    CHECK(value_of(*data.result) == to_double(result));
    CHECK_THAT(data.result->note, Contains(hex_code(result)));
    CHECK_NOTHROW(figure::check(figure::aligned_bits(data)));
  }
  return rows;
}

}  // namespace

TEST_CASE("block figure: every row is its term, the kept bits add up to the sum, the result is the block's", "[explain][figure]") {
  const std::int64_t rows = check_blocks<format::bf16>(unit_named("sm90.wgmma.bf16.f32"), 300) + check_blocks<format::bf16>(unit_named("sm80.mma.bf16.f32"), 300) +
                            check_blocks<format::f16>(unit_named("sm90.wgmma.f16.f32"), 300);
  WARN(rows << " rows of 900 blocks of three units, seed 7");
}

TEST_CASE("block figure: a sum that rounds up carries into a new bit", "[explain][figure]") {
  const block_summed summed{0, false, -25, (std::int64_t{1} << 26) - 1};  // 26 ones: to nearest even, 2^1
  rounded packed{};
  (void)round_pack<format::f32>({}, false, summed.quantum_exponent, std::uint64_t(summed.sum), [&](rounded const& e) { packed = e; });
  const auto data = block_figure({}, summed, packed);
  CHECK(data.sum->kept == 24);
  CHECK(value_of(*data.result) == 2.0);
  CHECK(data.result->bits.size() == 25);
  CHECK(data.result->note == "0x40000000 = 2");
  CHECK_THAT(data.decision, Contains("the magnitude grows by one ulp"));
}

TEST_CASE("block figure: a tie-free cut, a lost product, an infinity", "[explain][figure]") {
  const auto& unit = unit_named("sm90.wgmma.bf16.f32");
  std::vector<bf16_code> a(std::size_t(unit.block_size)), b(a);
  a[0] = b[0] = b[1] = parse_bf16("1");
  a[1] = parse_bf16("0x1p-26");
  auto data = block_figure<format::bf16>(unit, std::span<bf16_code const>(a), std::span<bf16_code const>(b), f32_code::zero());
  CHECK(data.quantum_exponent == -25);
  CHECK(data.terms[0].bits.empty());
  CHECK(data.terms[2].kept == 0);
  CHECK(data.terms[2].label == "1: 1.49e-08 × 1");
  CHECK(data.terms[2].tooltip == "a[1] · b[1] = 1.4901161193847656e-08 (0x3280) × 1 (0x3F80)");
  CHECK_THAT(data.decision, Contains("the sum fits"));
  a[0] = parse_bf16("inf");
  data = block_figure<format::bf16>(unit, std::span<bf16_code const>(a), std::span<bf16_code const>(b), f32_code::zero());
  CHECK(data.terms.empty());
  CHECK_THAT(data.decision, Contains("inf (0x7F800000)"));
  CHECK_NOTHROW(figure::check(figure::aligned_bits(data)));
}
