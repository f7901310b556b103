#include "stickybit/explain/block_figure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

/// Binary digits from the highest set bit; none of 0.
std::string binary(std::uint64_t magnitude) { return magnitude == 0 ? std::string() : fmt::format("{:b}", magnitude); }

/// With a true minus.
std::string typeset(std::string number) { return number.starts_with('-') ? "−" + number.substr(1) : number; }

figure::bit_row term_row(term_aligned const& t, std::string label) {
  const int width = bit_width_of(t.significand);
  figure::bit_row r{std::move(label), t.negative, binary(t.significand), t.exponent - t.scale_bits + width - 1, width, {}};
  if (t.shift < 0) r.kept = std::clamp(width + t.shift, 0, width);
  return r;
}

/// The code that a rounding gave, in hexadecimal; of a few formats also in decimal.
std::string name_of_result(rounded const& e) {
  const auto both = [](auto c) { return fmt::format("{} = {}", hex_code(c), typeset(decimal(c))); };
  if (e.target == format::f32) return both(f32_code::from_bits(e.bits));
  if (e.target == format::f16) return both(f16_code::from_bits(std::uint16_t(e.bits)));
  return fmt::format("0x{:0{}X}", e.bits, (traits_of(e.target).width_bits + 3) / 4);
}

figure::bit_row result_row(rounded const& e) {
  const std::uint64_t kept = e.drop >= 64 ? 0 : e.drop > 0 ? e.significand >> e.drop : e.significand;
  const std::uint64_t magnitude = e.raised.overflow || e.flushed ? 0 : kept + (e.grew ? 1 : 0);
  const int width = bit_width_of(magnitude);
  return {fmt::format("result, {}", traits_of(e.target).name), e.negative, binary(magnitude), e.exponent + std::max(e.drop, 0) + width - 1, width, name_of_result(e)};
}

std::string decision_of(rounded const& e) {
  const std::string rule = fmt::format("Rounding to {}, {}: ", traits_of(e.target).name, name_of(e.rule.mode));
  if (e.raised.overflow) return rule + "the sum is beyond the largest finite number.";
  if (e.cut == tail::zero) return rule + "the sum fits.";
  return rule + fmt::format("cut off {}; {}; error {} ulp.", name_of(e.cut), e.grew ? "the magnitude grows by one ulp" : "the rest stays as it is",
                            detail::signed_ulps(detail::error_in_ulp(e)));
}

/// Four digits are enough to know an operand by; all of them are in the tooltip.
template <format F>
std::string short_decimal(code<F> c) {
  return typeset(fmt::format("{:.4g}", to_double(c)));
}

}  // namespace

figure::aligned_bits_data block_figure(std::span<term_aligned const> terms, block_summed const& summed, std::optional<rounded> const& packed,
                                       std::span<std::string const> labels, std::string const& c_label) {
  figure::aligned_bits_data data;
  data.title = "One tensor-core step, bit by bit";
  data.quantum_exponent = summed.quantum_exponent;
  for (term_aligned const& t : terms) {
    const bool is_c = t.index == term_aligned::accumulator;
    const auto k = std::size_t(std::max(t.index, 0));
    figure::bit_row r = term_row(t, is_c ? c_label : k < labels.size() ? labels[k] : fmt::format("{}", k));
    data.terms.insert(is_c ? data.terms.begin() : data.terms.end(), std::move(r));
  }
  const std::uint64_t magnitude = summed.sum < 0 ? std::uint64_t(0) - std::uint64_t(summed.sum) : std::uint64_t(summed.sum);
  const int width = bit_width_of(magnitude);
  const int cut = packed && !packed->raised.overflow && !packed->flushed ? std::clamp(packed->drop, 0, width) : 0;
  data.sum = figure::bit_row{"sum, exact", summed.sum < 0, binary(magnitude), summed.quantum_exponent + width - 1, width - cut, typeset(fmt::format("{} quanta", summed.sum))};
  if (!packed) return data;
  data.result = result_row(*packed);
  data.decision = decision_of(*packed);
  return data;
}

template <format In>
figure::aligned_bits_data block_figure(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c) {
  recorder<term_aligned, block_summed, block_special, rounded> steps;
  const f32_code result = block_fma<In>(unit, a, b, c, steps);
  const auto sums = steps.template all<block_summed>();
  if (sums.empty()) {
    figure::aligned_bits_data data;
    data.title = "One tensor-core step";
    data.decision = fmt::format("Decided by infinities and NaN: the result is {} ({}).", decimal(result), hex_code(result));
    return data;
  }
  const auto roundings = steps.template all<rounded>();
  std::vector<std::string> labels;
  for (std::size_t k = 0; k < a.size(); ++k) labels.push_back(fmt::format("{}: {} × {}", k, short_decimal(a[k]), short_decimal(b[k])));
  figure::aligned_bits_data data = block_figure(steps.template all<term_aligned>(), sums.front(), roundings.empty() ? std::nullopt : std::optional(roundings.front()), labels,
                                                fmt::format("c = {}", short_decimal(c)));
  data.terms.front().tooltip = fmt::format("c = {} ({})", decimal(c), hex_code(c));
  for (std::size_t k = 0; k < a.size(); ++k)
    data.terms[k + 1].tooltip = fmt::format("a[{0}] · b[{0}] = {1} ({2}) × {3} ({4})", k, decimal(a[k]), hex_code(a[k]), decimal(b[k]), hex_code(b[k]));
  return data;
}

template figure::aligned_bits_data block_figure<format::bf16>(machine_unit const&, std::span<bf16_code const>, std::span<bf16_code const>, f32_code);
template figure::aligned_bits_data block_figure<format::f16>(machine_unit const&, std::span<f16_code const>, std::span<f16_code const>, f32_code);

}  // namespace stickybit
