#include "stickybit/identify/backward_axes.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "axes.hpp"

namespace stickybit {
namespace {

using detail::axis_of;

template <class Enum>
schedule_axis rule_axis(std::string name, Enum backward_rules::*member, std::vector<std::pair<std::string, Enum>> values) {
  return axis_of(std::move(name), std::move(values), [member](attention_schedule& s, Enum value) { s.backward.*member = value; });
}

/// The exponent's form; where L enters, with each form of L.
schedule_axis weight_axis() {
  using form = std::pair<weight_form, scale_form>;
  constexpr auto any = scale_form::double_product;
  return axis_of<form>("P",
                       {{"EX2(fma(S, L, -rn(lse log2 e))), L = float(double(float(s)) log2 e)", {weight_form::fused, any}},
                        {"the same, L = rn(float(s) float(log2 e))", {weight_form::fused, scale_form::float_product}},
                        {"the same, L = float(s log2 e)", {weight_form::fused, scale_form::wide_scale}},
                        {"EX2(rn(rn(S L) - rn(lse log2 e))), L = float(double(float(s)) log2 e)", {weight_form::scaled_difference, any}},
                        {"the same not fused, L = rn(float(s) float(log2 e))", {weight_form::scaled_difference, scale_form::float_product}},
                        {"the same not fused, L = float(s log2 e)", {weight_form::scaled_difference, scale_form::wide_scale}},
                        {"expf(rn(rn(S s) - lse))", {weight_form::natural, any}},
                        {"EX2(rn(rn(rn(S s) - lse) log2 e))", {weight_form::difference_scaled, any}},
                        {"EX2(rn(fma(S, s, -lse) log2 e))", {weight_form::fused_difference, any}}},
                       [](attention_schedule& s, form value) {
                         s.backward.weight = value.first;
                         s.rules.scale = value.second;
                       });
}

schedule_axis delta_axis() {
  return rule_axis("delta", &backward_rules::delta,
                   {{"d/8 lanes of 8 columns, joined by halves", delta_sum::lanes_of_eight},
                    {"the same, two columns added first", delta_sum::pairs_of_eight},
                    {"8 lanes, 8 columns of every 64, joined by halves", delta_sum::eight_lanes},
                    {"d/32 lanes, 8 columns of every d/4, joined nearest first", delta_sum::few_lanes},
                    {"serial", delta_sum::serial},
                    {"the unit's chain", delta_sum::tensor_core}});
}

schedule_axis gradient_axis() {
  return rule_axis("dS", &backward_rules::gradient,
                   {{"rn(P rn(dP - delta))", score_gradient::product_of_difference},
                    {"rn(BF16(P) rn(dP - delta))", score_gradient::from_bf16_weights},
                    {"rn(rn(P dP) - rn(P delta))", score_gradient::difference_of_products},
                    {"fma(P, dP, -rn(P delta))", score_gradient::fused_products}});
}

}  // namespace

void backward_space::add(gradient_stage stage, schedule_axis axis) {
  axes_.push_back(std::move(axis));
  stages_.push_back(stage);
}

backward_space::backward_space(attention_problem const& p) {
  add(gradient_stage::dv, detail::unit_axis());
  add(gradient_stage::dv, weight_axis());
  add(gradient_stage::dv, rule_axis("subnormals", &backward_rules::scalars, {{"flushed", subnormals::flushed}, {"kept", subnormals::kept}}));

  query_axis_ = axes_.size();
  std::vector<std::pair<std::string, query_order>> orders{{"ascending", query_order::ascending}};
  query_rows_.push_back(64);
  for (int rows : {16, 32, 48, 64, 80, 96, 112, 128, 192, 256})
    if (rows < p.queries) {
      orders.emplace_back(fmt::format("blocks of {} descending", rows), query_order::descending);
      query_rows_.push_back(rows);
    }
  add(gradient_stage::dv, rule_axis("queries", &backward_rules::queries, std::move(orders)));
  if (p.heads > p.key_heads)
    add(gradient_stage::dv, rule_axis("grouped heads", &backward_rules::group, {{"FP32 sums", group_sum::fp32_outputs}, {"BF16 results added", group_sum::bf16_outputs}}));
  if (p.causal && p.queries != p.keys) add(gradient_stage::dv, detail::causal_mask_axis());

  add(gradient_stage::dk, delta_axis());
  add(gradient_stage::dk, gradient_axis());
  add(gradient_stage::dk, rule_axis("scale", &backward_rules::scaled, {{"sums times s", scale_place::outputs}, {"rn(dS s) before its cast", scale_place::score_gradients}}));

  key_axis_ = axes_.size();
  std::vector<std::pair<std::string, dq_sum>> sums{{"one chain", dq_sum::one_chain}};
  key_columns_.push_back(128);
  const std::int64_t buffers = flash_attention_2_dq_buffers(p.batch * (p.call_heads == 0 ? p.heads : p.call_heads), p.sm_count);
  for (int width : {16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 224, 256, 320, 384, 512}) {
    if (width >= p.keys) continue;
    const auto part = [&](const char* text, dq_sum sum) {
      sums.emplace_back(fmt::format("parts of {} keys, {}", width, text), sum);
      key_columns_.push_back(width);
    };
    part("ascending", dq_sum::ascending);
    part("descending", dq_sum::descending);
    if ((p.keys + width - 1) / width > buffers) part("in FlashAttention-2's buffers", dq_sum::flash_attention_2);
  }
  add(gradient_stage::dq, rule_axis("dQ", &backward_rules::dq, std::move(sums)));
  add(gradient_stage::dq, rule_axis("additions into dQ", &backward_rules::dq_additions, {{"subnormals kept", subnormals::kept}, {"subnormals flushed", subnormals::flushed}}));

  for (int rows : query_rows_)
    for (int columns : key_columns_)
      tiles_.push_back({attention_tile{int(p.head_dim), false, rows, columns}, attention_tile{int(p.head_dim), true, rows, columns}});
}

attention_schedule backward_space::make(schedule_point const& point) const {
  attention_schedule s{.name = "searched", .kernel = "a point of the space of backward kernels", .unit = {}, .causal_mask = mask_alignment::bottom_right, .rules = {},
                       .forward_tiles = {}, .split_tiles = {}, .small = {}, .facts = {}};
  s.backward_tiles = tiles_.at(point.at(query_axis_) * key_columns_.size() + point.at(key_axis_));
  for (std::size_t i = 0; i < axes_.size(); ++i) axes_[i].set(s, point[i]);
  return s;
}

}  // namespace stickybit
