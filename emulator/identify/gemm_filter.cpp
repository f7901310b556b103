#include "identify/gemm_filter.hpp"

#include <algorithm>
#include <numeric>

#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"

namespace stickybit::detail {
namespace {

std::uint32_t bits_in(format output, f32_code c, engine how) {
  if (output == format::bf16) return (how == engine::fast ? host::to_bf16(c) : convert<format::bf16>(c)).to_bits();
  if (output == format::f16) return convert<format::f16>(c).to_bits();
  return c.to_bits();
}

bool is_nan_code(format output, std::uint32_t bits) {
  if (output == format::bf16) return bf16_code::from_bits(std::uint16_t(bits)).is_nan();
  if (output == format::f16) return f16_code::from_bits(std::uint16_t(bits)).is_nan();
  return f32_code::from_bits(bits).is_nan();
}

std::span<std::uint32_t const> row_of(std::vector<std::uint32_t> const& matrix, std::int64_t row, std::int64_t k) {
  return std::span<std::uint32_t const>(matrix).subspan(std::size_t(row * k), std::size_t(k));
}

}  // namespace

captured_element::captured_element(captured_product const& of, chain_unit const& by, std::int64_t element)
    : input_(of.input),
      output_(of.output),
      a_(row_of(of.a, element / of.n, of.k)),
      b_(row_of(of.b, element % of.n, of.k)),
      c_(of.c.empty() ? std::nullopt : std::optional(of.c[std::size_t(element)])),
      wanted_(of.d[std::size_t(element)]),
      place_{of.row_index[std::size_t(element / of.n)], of.column_index[std::size_t(element % of.n)], of.rows, of.columns},
      how_(host::is_ieee() ? engine::fast : engine::definition),
      products_(by, of.input, a_, b_) {}

bool captured_element::is(f32_code sum) const {
  const std::uint32_t bits = bits_in(output_, sum, how_);
  return bits == wanted_ || (is_nan_code(output_, bits) && is_nan_code(output_, wanted_));
}

std::vector<std::vector<f32_code>> captured_element::chains(gemm_order const& order, bool c_first) const {
  const std::vector<std::int64_t> cuts = cuts_at(order, std::int64_t(a_.size()), place_);
  std::vector<std::vector<f32_code>> slices;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    std::vector<f32_code>& ways = slices.emplace_back();
    for (int way = 0; way < order.ways; ++way) {
      const f32_code from = c_first && c_ && s == 0 && way == 0 ? *c_ : f32_code::zero();
      const std::vector<k_run> runs = runs_of(order, cuts[s], cuts[s + 1], way);
      const std::optional<f32_code> fast = products_.chain(runs, from);
      ways.push_back(fast ? *fast : defined_chain(order, input_, runs, a_, b_, from));
    }
  }
  return slices;
}

bool captured_element::agrees(sum_choice const& order, std::vector<std::vector<f32_code>> const& chains) const {
  std::vector<f32_code> parts;
  for (std::vector<f32_code> const& ways : chains) parts.push_back(rounded_to(order.partial, sum_in_order(ways, order.join, format::f32, how_), how_));
  const auto with_c = [&](f32_code sum) { return c_ && !order.c_first ? add(sum, *c_, subnormals::kept) : sum; };
  if (order.combine != sum_order::any) return is(with_c(sum_in_order(parts, order.combine, order.running, how_)));
  std::vector<std::size_t> places(parts.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::vector<f32_code> permuted(parts.size());
  do {
    std::transform(places.begin(), places.end(), permuted.begin(), [&](std::size_t i) { return parts[i]; });
    if (is(with_c(sum_in_order(permuted, sum_order::ascending, order.running, how_)))) return true;
  } while (std::next_permutation(places.begin(), places.end()));
  return false;
}

bool captured_element::agrees(gemm_order const& order) const {
  return agrees(sum_choice{order.join, order.partial, order.combine, order.running, order.c_first}, chains(order, order.c_first));
}

void captured_element::keep_agreeing(gemm_order const& order, std::vector<sum_choice>& sums) const {
  for (bool c_first : {false, true}) {  // the one choice of sums on which chains depend
    if (std::none_of(sums.begin(), sums.end(), [&](sum_choice const& s) { return s.c_first == c_first; })) continue;
    const auto made = chains(order, c_first);
    std::erase_if(sums, [&](sum_choice const& s) { return s.c_first == c_first && !agrees(s, made); });
  }
}

void captured_element::count_failures(gemm_order const& order, std::vector<sum_choice> const& sums, std::vector<std::int64_t>& failures) const {
  const auto made = chains(order, false);
  for (std::size_t i = 0; i < sums.size(); ++i) failures[i] += !agrees(sums[i], sums[i].c_first ? chains(order, true) : made);
}

}  // namespace stickybit::detail
