#include "stickybit/identify/schedule_axes.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "axes.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace detail {

schedule_axis unit_axis() {
  std::vector<machine_unit const*> distinct;
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      if (u.input != format::bf16 || u.output != format::f32) continue;
      bool known = false;
      for (machine_unit const* d : distinct)
        known |= d->block_size == u.block_size && d->alignment_fraction_bits == u.alignment_fraction_bits && d->min_alignment_exponent == u.min_alignment_exponent;
      if (!known) distinct.push_back(&u);
    }
  schedule_axis axis{"unit", {}, [distinct](attention_schedule& s, std::size_t value) { s.unit = distinct[value]->name; }};
  for (machine_unit const* u : distinct) axis.values.emplace_back(u->name);
  return axis;
}

schedule_axis causal_mask_axis() {
  return axis_of<mask_alignment>("causal mask", {{"last query sees last key", mask_alignment::bottom_right}, {"first query sees first key", mask_alignment::top_left}},
                                 [](attention_schedule& s, mask_alignment value) { s.causal_mask = value; });
}

}  // namespace detail

namespace {

/// An axis over the values of an enumeration that is a member of forward_rules.
template <class Enum>
schedule_axis rule_axis(std::string name, Enum forward_rules::*member, std::vector<std::pair<std::string, Enum>> values) {
  return detail::axis_of(std::move(name), std::move(values), [member](attention_schedule& s, Enum value) { s.rules.*member = value; });
}

std::vector<schedule_axis> rule_axes() {
  return {
      rule_axis("exponent", &forward_rules::exponent,
                {{"fma(S, L, -rn(m L))", exponent_form::fused},
                 {"rn(rn(S L) - rn(m L))", exponent_form::scaled_difference},
                 {"rn(rn(S - m) L)", exponent_form::difference_scaled},
                 {"rn(t - m), t = rn(S L)", exponent_form::scaled_scores},
                 {"fma(S, L, -m), m of rn(S L)", exponent_form::fused_scaled_max},
                 {"exp(rn(t - m)), t = rn(S s)", exponent_form::natural},
                 {"rn(t - m), t = rn(rn(S s) log2 e)", exponent_form::twice_scaled},
                 {"fma(rn(S s), log2 e, -m)", exponent_form::fused_twice_scaled}}),
      rule_axis("order of blocks", &forward_rules::order, {{"descending", block_order::descending}, {"ascending", block_order::ascending}}),
      rule_axis("rescale", &forward_rules::rescale,
                {{"EX2(rn(rn(m_old - m) L))", rescale_form::difference_scaled},
                 {"EX2(fma(m_old, L, -rn(m L)))", rescale_form::fused},
                 {"EX2(rn(rn(m_old L) - rn(m L)))", rescale_form::scaled_difference}}),
      rule_axis("row sum", &forward_rules::start,
                {{"lanes go on from fma(rescale, sum, p0)", sum_start::carried},
                 {"lanes go on from rn(rn(rescale sum) + p0)", sum_start::carried_twice},
                 {"lanes: fma(rescale, sum, block)", sum_start::block},
                 {"lanes: rn(rn(rescale sum) + block)", sum_start::block_twice},
                 {"row: fma(rescale, sum, block)", sum_start::block_row},
                 {"row: rn(rn(rescale sum) + block)", sum_start::block_row_twice},
                 {"rn(rescale sum), then slices of 32 columns", sum_start::slices}}),
      rule_axis("join of lanes", &forward_rules::join, {{"(l0 + l2) + (l1 + l3)", lane_join::far_first}, {"(l0 + l1) + (l2 + l3)", lane_join::near_first}}),
      rule_axis("row sum of", &forward_rules::summed, {{"FP32 p", sum_of::fp32_weights}, {"BF16 p", sum_of::bf16_weights}}),
      rule_axis("cast of p", &forward_rules::weight_cast, {{"nearest even", rounding::nearest_even}, {"toward zero", rounding::toward_zero}}),
      rule_axis("division", &forward_rules::inverse,
                {{"O RCP(sum)", inverse_form::mufu}, {"O rn(1/sum)", inverse_form::ieee}, {"O / sum", inverse_form::division}}),
      rule_axis("lse", &forward_rules::lse,
                {{"fma(rn(L ln2), m, rn(LG2(sum) ln2))", lse_form::base2_times_max},
                 {"fma(m, s, rn(LG2(sum) ln2))", lse_form::scale_times_max},
                 {"fma(m, ln2, rn(LG2(sum) ln2)), m scaled", lse_form::scaled_max},
                 {"rn(rn(m ln2) + rn(LG2(sum) ln2)), m scaled", lse_form::scaled_max_twice},
                 {"rn(rn(m + LG2(sum)) ln2), m scaled", lse_form::sum_then_scale},
                 {"rn(m + logf(sum)), m natural", lse_form::natural},
                 {"fma(LG2(sum), ln2, rn(m ln2)), m scaled", lse_form::fused_log},
                 {"rn(rn(m ln2) + logf(sum)), m scaled", lse_form::scaled_max_logf},
                 {"rn(m / log2 e + logf(sum)), m scaled", lse_form::divided_max_logf},
                 {"rn(rn(m + log2f(sum)) ln2), m scaled", lse_form::log2f_then_scale}}),
      rule_axis("scale", &forward_rules::scale,
                {{"L = float(double(float(s)) log2 e)", scale_form::double_product},
                 {"L = rn(float(s) float(log2 e))", scale_form::float_product},
                 {"L = float(s log2 e)", scale_form::wide_scale}}),
      rule_axis("exp2", &forward_rules::exp2, {{"as the other scalars", exp2_form::with_scalars}, {"EX2 with .ftz", exp2_form::bare}}),
      rule_axis("subnormals", &forward_rules::scalars, {{"flushed", subnormals::flushed}, {"kept", subnormals::kept}}),
      rule_axis("sum of 0 or NaN", &forward_rules::empty,
                {{"1/sum 0, lse -inf", empty_sum::zero_minus_infinity}, {"1/sum 1, lse +inf", empty_sum::one_plus_infinity}, {"not tested", empty_sum::not_tested}}),
      rule_axis("maximum of -inf", &forward_rules::guard,
                {{"0 in first and masked blocks", empty_guard::first_and_causal},
                 {"0 in weights, in rescale where masked", empty_guard::weights_always},
                 {"0 in every block", empty_guard::always},
                 {"as it is", empty_guard::never}}),
      rule_axis("output", &forward_rules::output, {{"divide, then round", output_form::divide_then_round}, {"round, then divide", output_form::round_then_divide}}),
  };
}

}  // namespace

schedule_space::schedule_space(attention_problem const& problem) {
  axes_.push_back(detail::unit_axis());
  schedule_axis blocks{"key block", {}, {}};
  const std::int64_t all = (problem.keys + 15) / 16 * 16;
  std::vector<std::int64_t> widths;
  for (std::int64_t width : {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 320, 384, 512, 1024})
    if (width < all) widths.push_back(width);
  widths.push_back(std::max<std::int64_t>(all, 16));
  for (std::int64_t width : widths) {
    blocks.values.push_back(width >= all ? "all keys" : fmt::format("{}", width));
    std::vector<attention_tile> tiles;
    for (bool causal : {false, true}) tiles.push_back({int(problem.head_dim), causal, 128, int(width)});
    tiles_.push_back(tiles);
  }
  block_axis_ = axes_.size();
  axes_.push_back(blocks);
  schedule_axis parts{"parts of the keys", {}, [](attention_schedule& s, std::size_t value) { s.fixed_splits = std::int64_t(value) + 1; }};
  for (int n = 1; n <= 16; ++n) parts.values.push_back(fmt::format("{}", n));
  axes_.push_back(parts);
  for (schedule_axis& axis : rule_axes()) axes_.push_back(std::move(axis));
  if (problem.causal && problem.queries != problem.keys)
    axes_.push_back(detail::causal_mask_axis());
}

std::size_t axis_product::axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == name) return i;
  throw std::out_of_range(fmt::format("no axis '{}'", name));
}

double axis_product::size() const noexcept {
  double product = 1;
  for (schedule_axis const& axis : axes_) product *= double(axis.values.size());
  return product;
}

attention_schedule schedule_space::make(schedule_point const& point) const {
  attention_schedule s{.name = "searched", .kernel = "a point of the space of forward kernels", .unit = {}, .causal_mask = mask_alignment::bottom_right, .rules = {},
                       .forward_tiles = tiles_.at(point.at(block_axis_)), .split_tiles = {}, .small = {}, .facts = {}};
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].set) axes_[i].set(s, point[i]);
  return s;
}

std::string axis_product::describe(schedule_point const& point) const {
  std::string text;
  for (std::size_t i = 0; i < axes_.size(); ++i) text += fmt::format("  {:<18} {}\n", axes_[i].name, axes_[i].values[point[i]]);
  return text;
}

}  // namespace stickybit
