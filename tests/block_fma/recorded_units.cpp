// Inner products recorded on an H200, a file for each of its tensor-core units: evaluate() gives every bit, and a unit with any one rule
// changed does not. Files: cuda/record/units.cu.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>

#include "../../cuda/record/changed_units.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

struct recorded_case {
  std::vector<std::uint64_t> a, b;
  std::uint64_t c, d;
};
using operation = std::function<std::uint64_t(recorded_case const&)>;

/// A tensor's elements as codes; FP64 codes are pairs of 32-bit words, the low one first.
std::vector<std::uint64_t> codes_of(tensor const& t, bool pairs) {
  const std::size_t width = pairs ? 8 : size_bytes(t.type);
  std::vector<std::uint64_t> codes(t.bytes.size() / width);
  for (std::size_t i = 0; i < codes.size(); ++i) std::memcpy(&codes[i], t.bytes.data() + i * width, width);
  return codes;
}

std::vector<recorded_case> cases_of(tensor_file const& file, machine_unit const& unit) {
  std::vector<recorded_case> cases;
  const bool pairs = unit.output == format::f64;
  for (std::string const prefix : {"", "two/"}) {
    const auto get = [&](char const* name) {
      tensor const* found = file.find(prefix + name);
      REQUIRE(found != nullptr);
      return codes_of(*found, pairs);
    };
    const auto a = get("a"), b = get("b"), c = get("c"), d = get("d");
    const auto k = std::ptrdiff_t(a.size() / d.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      const auto row = [&](std::vector<std::uint64_t> const& m) { return std::vector<std::uint64_t>(m.begin() + std::ptrdiff_t(i) * k, m.begin() + std::ptrdiff_t(i + 1) * k); };
      cases.push_back({row(a), row(b), c[i], d[i]});
    }
  }
  return cases;
}

operation by(machine_unit const& unit) {
  return [unit](recorded_case const& x) { return evaluate(unit, {.a = x.a, .b = x.b, .scale_a = {}, .scale_b = {}, .c = x.c}); };
}

std::int64_t mismatches(std::vector<recorded_case> const& cases, operation const& result) {
  return std::ranges::count_if(cases, [&](recorded_case const& x) { return result(x) != x.d; });
}

/// Rules that no number of a unit says.
enum class odd_rule { zeros_in_maximum, normalised_products, negative_zero };

/// A block of one instruction under the odd rule.  @pre the unit's instruction is one block with c in it
std::uint64_t odd_block(machine_unit unit, odd_rule rule, std::span<std::uint64_t const> a, std::span<std::uint64_t const> b, std::uint64_t c) {
  const int fraction_a = traits_of(unit.input).fraction_bits(), fraction_b = traits_of(unit.input_b).fraction_bits();
  std::vector<detail::block_term> terms;
  detail::special_state special;
  bool all_negative = (c >> 31) != 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const decoded x = decode_bits(unit.input, std::uint32_t(a[k])), y = decode_bits(unit.input_b, std::uint32_t(b[k]));
    detail::block_term t = detail::product_term(x, y, fraction_a + fraction_b, special);
    all_negative = all_negative && x.negative != y.negative;
    if (rule == odd_rule::zeros_in_maximum && t.significand == 0) unit.min_alignment_exponent = std::max(unit.min_alignment_exponent, t.exponent);
    if (rule == odd_rule::normalised_products && t.significand >> (t.scale_bits + 1) != 0) ++t.exponent, ++t.scale_bits;
    terms.push_back(t);
  }
  const f32_code result = detail::aligned_sum(unit, terms, special, f32_code::from_bits(std::uint32_t(c)), null_sink{});
  if (rule == odd_rule::negative_zero && result.is_zero() && all_negative) return f32_code::zero(true).to_bits();
  return result.to_bits();
}

operation by_odd(machine_unit const& unit, odd_rule rule) {
  return [unit, rule](recorded_case const& x) {
    const auto length = std::size_t(unit.instruction_k);
    std::uint64_t c = x.c;
    for (std::size_t k = 0; k < x.a.size(); k += length) c = odd_block(unit, rule, std::span(x.a).subspan(k, length), std::span(x.b).subspan(k, length), c);
    return c;
  };
}

std::vector<std::pair<std::string, operation>> neighbours_of(machine_unit const& unit) {
  std::vector<std::pair<std::string, operation>> neighbours;
  for (gpu::changed_unit const& changed : gpu::changed_units(unit)) neighbours.emplace_back(changed.rule, by(changed.unit));
  if (unit.arithmetic != block_arithmetic::fma_chain) return neighbours;
  neighbours.emplace_back("descending k", [unit](recorded_case x) {
    std::ranges::reverse(x.a);
    std::ranges::reverse(x.b);
    return by(unit)(x);
  });
  neighbours.emplace_back("a and b exchanged: a's NaN first", [unit](recorded_case x) {
    std::swap(x.a, x.b);
    return by(unit)(x);
  });
  return neighbours;
}

/// Rules that show in few cases of a unit, and cannot in some units: an FP16 product never vanishes in FP32.
std::vector<std::pair<std::string, operation>> odd_neighbours_of(machine_unit const& unit) {
  if (unit.arithmetic == block_arithmetic::fma_chain || unit.block_size != unit.instruction_k) return {};
  return {{"zeros take part in the maximum", by_odd(unit, odd_rule::zeros_in_maximum)},
          {"products are normalised first", by_odd(unit, odd_rule::normalised_products)},
          {"a sum of negative terms is -0", by_odd(unit, odd_rule::negative_zero)}};
}

}  // namespace

TEST_CASE("every unit of an H200: recorded inner products, and each changed rule differs from them", "[block_fma][golden]") {
  std::size_t files = 0;
  std::map<std::string, std::int64_t> odd;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200/units")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    const tensor_file file = tensor_file::load(entry.path());
    const machine_unit unit = unit_named(file.metadata.at("unit"));
    const auto cases = cases_of(file, unit);
    INFO(unit.name);
    CHECK(cases.size() > 1500);
    CHECK(mismatches(cases, by(unit)) == 0);
    std::cout << unit.name << ": " << cases.size() << " recorded";
    for (auto const& [rule, result] : neighbours_of(unit)) {
      const std::int64_t found = mismatches(cases, result);
      std::cout << "; " << rule << " " << found;
      INFO(rule);
      CHECK(found > 0);
    }
    for (auto const& [rule, result] : odd_neighbours_of(unit)) {
      const std::int64_t found = mismatches(cases, result);
      std::cout << "; " << rule << " " << found;
      odd[rule] += found;
    }
    std::cout << "\n";
  }
  CHECK(odd.size() == 3);
  for (auto const& [rule, found] : odd) {
    INFO(rule << ", all units");
    CHECK(found > 0);
  }
  CHECK(files == 33);
}
