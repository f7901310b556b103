#include "stickybit/explain/dot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

using dot_recorder = recorder<term_aligned, block_summed, sum_shortened, block_special, rounded>;

double value_of(term_aligned const& t) {
  const double magnitude = std::ldexp(double(t.significand), t.exponent - t.scale_bits);
  return t.negative ? -magnitude : magnitude;
}

template <format In>
std::string term_line(term_aligned const& t, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c, std::size_t first) {
  std::string name = "c";
  std::string operands = decimal(c);
  if (t.index != term_aligned::accumulator) {
    const std::size_t k = first + std::size_t(t.index);
    if (k >= a.size()) return {};  // padding
    name = fmt::format("{}", k);
    operands = fmt::format("{} × {}", decimal(a[k]), decimal(b[k]));
  }
  if (t.significand == 0) return fmt::format("  {:>4}  {:<28} 0, takes no part\n", name, operands);
  std::string cut = "nothing cut";
  if (t.dropped != 0) {
    const double lost = std::ldexp(double(t.dropped), t.exponent - t.scale_bits);
    cut = t.kept == 0 ? fmt::format("all of it cut ({})", value_of(t)) : fmt::format("cut {}{} ({} bits lost)", t.negative ? "-" : "", lost, -t.shift);
  }
  return fmt::format("  {:>4}  {:<28} = {:<24} exponent {:>4}  {:>11} quanta  {}\n", name, operands, fmt::format("{}", value_of(t)), t.exponent,
                     fmt::format("{}{}", t.negative && t.kept != 0 ? "-" : "", t.kept), cut);
}

template <format In>
double_double exact_block(std::span<code<In> const> a, std::span<code<In> const> b, double_double sum) {
  for (std::size_t k = 0; k < a.size(); ++k) sum = sum + to_double(a[k]) * to_double(b[k]);  // the product is exact in double
  return sum;
}

}  // namespace

template <format In>
std::string explain_dot(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c) {
  if (a.size() != b.size()) throw shape_error(fmt::format("a has {} elements, b has {}: expected equally many", a.size(), b.size()));
  std::string text = fmt::format("{}: blocks of {} products and c, aligned at the largest exponent E, cut toward zero at 2^(E-{})\n", unit.name, unit.block_size,
                                 unit.alignment_fraction_bits);
  double_double exact{to_double(c), 0};
  const auto n = std::size_t(unit.block_size);
  for (std::size_t first = 0; first < std::max<std::size_t>(a.size(), 1); first += n) {
    const std::size_t count = std::min(n, a.size() - first);
    const auto block_a = a.subspan(first, count), block_b = b.subspan(first, count);
    dot_recorder steps;
    std::vector<code<In>> padded_a(block_a.begin(), block_a.end()), padded_b(block_b.begin(), block_b.end());
    padded_a.resize(n);
    padded_b.resize(n);
    const f32_code result = block_fma<In>(unit, std::span<code<In> const>(padded_a), std::span<code<In> const>(padded_b), c, steps);
    exact = exact_block<In>(block_a, block_b, exact);
    text += fmt::format("block k = {} to {}\n", first, first + n - 1);
    for (term_aligned const& t : steps.all<term_aligned>()) text += term_line<In>(t, a, b, c, first);
    for (block_special const& s : steps.all<block_special>())
      text += fmt::format("  decided by infinities and NaN: {}\n", s.nan ? "a NaN, infinity times zero, or infinities of both signs" : "an infinity");
    for (block_summed const& s : steps.all<block_summed>())
      text += fmt::format("  E = {}{}, quantum 2^{}; integer sum {}\n", s.max_exponent, s.clamped ? " (the unit's smallest)" : "", s.quantum_exponent, s.sum);
    for (sum_shortened const& s : steps.all<sum_shortened>())
      text += fmt::format("  shortened to {} fraction bits, {}: {}\n", s.fraction_bits, name_of(s.mode), s.dropped == 0 ? std::string("nothing cut") : fmt::format("cut {} of {} quanta ({})", s.dropped, s.significand, std::ldexp(double(s.dropped), s.quantum_exponent)));
    for (rounded const& e : steps.all<rounded>()) text += fmt::format("  rounding to {}, {}:\n", traits_of(e.target).name, name_of(e.rule.mode)) + detail::describe(e, "    ");
    text += fmt::format("  = {}\n", detail::describe(result));
    c = result;
  }
  if (!c.is_finite() || !std::isfinite(exact.hi)) return text + fmt::format("result {} ({})\n", decimal(c), hex_code(c));
  const double error = to_double(double_double{to_double(c), 0} - exact);
  return text + fmt::format("result {} ({}); exact {}; error {} ({} ulp)\n", decimal(c), hex_code(c), exact.hi, error,
                            detail::signed_ulps(error / ulp_at<format::f32>(exact.hi)));
}

template std::string explain_dot<format::bf16>(machine_unit const&, std::span<bf16_code const>, std::span<bf16_code const>, f32_code);
template std::string explain_dot<format::f16>(machine_unit const&, std::span<f16_code const>, std::span<f16_code const>, f32_code);
template std::string explain_dot<format::e4m3fn>(machine_unit const&, std::span<e4m3fn_code const>, std::span<e4m3fn_code const>, f32_code);
template std::string explain_dot<format::e5m2>(machine_unit const&, std::span<e5m2_code const>, std::span<e5m2_code const>, f32_code);

}  // namespace stickybit
