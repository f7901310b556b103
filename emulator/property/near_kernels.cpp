#include "near_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "drawing.hpp"
#include "property_parts.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::detail {

kernel_results results_of(attention_schedule const& schedule, attention_problem const& p, bool gradients) {
  forward_result f = attention_forward(schedule, p);
  kernel_results r{f.o, f.lse, {}, {}, {}};
  if (!gradients || p.d_o.empty() || schedule.backward_tiles.empty()) return r;
  backward_result g = attention_backward(schedule, p, f);
  r.dq = std::move(g.dq);
  r.dk = std::move(g.dk);
  r.dv = std::move(g.dv);
  return r;
}

near_kernels::near_kernels(attention_schedule const& schedule) : schedule_(schedule) {
  add_forward_rules();
  add_tiles();
  if (!schedule.backward_tiles.empty()) {
    add_backward_rules();
    if (schedule.kind == schedule_kind::online) add_backward_faults();
  }
  add_calls();
  add_rows();
}

void near_kernels::add(std::string family, std::string name, std::function<void(attention_schedule&)> change) {
  attention_schedule changed = schedule_;
  change(changed);
  if (changed.rules == schedule_.rules && changed.backward == schedule_.backward && changed.unit == schedule_.unit && changed.causal_mask == schedule_.causal_mask &&
      changed.forward_tiles.data() == schedule_.forward_tiles.data() && changed.backward_tiles.data() == schedule_.backward_tiles.data() && changed.fixed_splits == schedule_.fixed_splits &&
      changed.forward_in_fp32 == schedule_.forward_in_fp32)
    return;
  all_.push_back({std::move(name), std::move(family), [changed](attention_problem const& p, bool gradients) { return results_of(changed, p, gradients); }, std::move(change)});
}

void near_kernels::add_call(std::string family, std::string name, std::function<kernel_results(attention_problem const&, bool)> run) {
  all_.push_back({std::move(name), std::move(family), std::move(run), {}});
}

void near_kernels::add_forward_rules() {
  const auto rule = [&](const char* family, const char* name, auto member, auto value) { add(family, name, [=](attention_schedule& s) { s.rules.*member = value; }); };
  // A maximum in other units needs another lse.
  const auto exponent = [&](const char* name, exponent_form form) {
    add("exponent", name, [form](attention_schedule& s) {
      if (form == exponent_form::natural) s.rules.lse = lse_form::natural;
      else if (has_scaled_maximum(form) != has_scaled_maximum(s.rules.exponent) || s.rules.exponent == exponent_form::natural) s.rules.lse = has_scaled_maximum(form) ? lse_form::scaled_max : lse_form::base2_times_max;
      s.rules.exponent = form;
    });
  };
  exponent("exponent fused: fma(S, L, -rn(m L))", exponent_form::fused);
  exponent("exponent not fused: rn(rn(S L) - rn(m L))", exponent_form::scaled_difference);
  exponent("exponent: subtract first, rn(rn(S - m) L)", exponent_form::difference_scaled);
  exponent("exponent of scaled scores: rn(rn(S L) - m)", exponent_form::scaled_scores);
  exponent("exponent fused with a scaled maximum: fma(S, L, -m)", exponent_form::fused_scaled_max);
  exponent("natural exponential of rn(S s) - m", exponent_form::natural);
  exponent("exponent scaled twice: rn(rn(rn(S s) log2 e) - m)", exponent_form::twice_scaled);
  rule("order of blocks", "key blocks ascending", &forward_rules::order, block_order::ascending);
  rule("order of blocks", "key blocks descending", &forward_rules::order, block_order::descending);
  rule("rescale", "rescale factor fused", &forward_rules::rescale, rescale_form::fused);
  rule("rescale", "rescale factor from scaled maxima", &forward_rules::rescale, rescale_form::scaled_difference);
  rule("rescale", "rescale factor from the difference of maxima", &forward_rules::rescale, rescale_form::difference_scaled);
  for (auto [value, words] : {std::pair{sum_start::carried, "row sum carried on by fma"}, {sum_start::carried_twice, "row sum carried on, product and addition rounded apart"},
                              {sum_start::block, "row sum of the block first, then fma"}, {sum_start::block_twice, "row sum of the block first, product and addition rounded apart"},
                              {sum_start::block_row, "a block's lanes joined first, then fma"}, {sum_start::block_row_twice, "a block's lanes joined first, product and addition rounded apart"},
                              {sum_start::slices, "row sum in slices of 32 columns"}})
    rule("row sum", words, &forward_rules::start, value);
  rule("join of lanes", "lanes joined (l0 + l1) + (l2 + l3)", &forward_rules::join, lane_join::near_first);
  rule("join of lanes", "lanes joined (l0 + l2) + (l1 + l3)", &forward_rules::join, lane_join::far_first);
  rule("what is summed", "row sum of the BF16 weights", &forward_rules::summed, sum_of::bf16_weights);
  rule("what is summed", "row sum of the FP32 weights", &forward_rules::summed, sum_of::fp32_weights);
  rule("cast of P", "P cut toward zero to BF16", &forward_rules::weight_cast, rounding::toward_zero);
  rule("division", "O times MUFU's 1/sum", &forward_rules::inverse, inverse_form::mufu);
  rule("division", "O times the correctly rounded 1/sum", &forward_rules::inverse, inverse_form::ieee);
  rule("division", "O divided by the sum", &forward_rules::inverse, inverse_form::division);
  rule("subnormals", "subnormals kept", &forward_rules::scalars, subnormals::kept);
  rule("subnormals", "subnormals flushed", &forward_rules::scalars, subnormals::flushed);
  rule("exp2", "bare EX2 with .ftz", &forward_rules::exp2, exp2_form::bare);
  rule("output", "O rounded to BF16 before it is divided", &forward_rules::output, output_form::round_then_divide);
  rule("scale", "L = rn(float(s) float(log2 e))", &forward_rules::scale, scale_form::float_product);
  rule("scale", "L = float(s log2 e)", &forward_rules::scale, scale_form::wide_scale);
  rule("scale", "L = float(double(float(s)) log2 e)", &forward_rules::scale, scale_form::double_product);
  rule("empty sum", "a sum of 0 or NaN gives 1/sum 0, lse -inf", &forward_rules::empty, empty_sum::zero_minus_infinity);
  rule("empty sum", "a sum of 0 or NaN gives 1/sum 1, lse +inf", &forward_rules::empty, empty_sum::one_plus_infinity);
  rule("empty sum", "a sum of 0 is not tested", &forward_rules::empty, empty_sum::not_tested);
  rule("guard", "a maximum of -inf is never guarded", &forward_rules::guard, empty_guard::never);
  rule("guard", "a maximum of -inf is guarded always", &forward_rules::guard, empty_guard::weights_always);
  for (auto [value, words] : {std::pair{lse_form::base2_times_max, "lse = fma(rn(L ln2), m, ...)"}, {lse_form::scale_times_max, "lse = fma(m, s, ...)"}, {lse_form::scaled_max, "lse = fma(m, ln2, ...)"},
                              {lse_form::scaled_max_twice, "lse = rn(rn(m ln2) + ...)"}, {lse_form::sum_then_scale, "lse = rn(rn(m + LG2(sum)) ln2)"}, {lse_form::fused_log, "lse = fma(LG2(sum), ln2, rn(m ln2))"}}) {
    // Forms whose maximum has other units are another fault than a rounding.
    const bool scaled = value != lse_form::base2_times_max && value != lse_form::scale_times_max;
    if (scaled == has_scaled_maximum(schedule_.rules.exponent)) rule("lse", words, &forward_rules::lse, value);
  }
  for (const char* unit : {"sm90.wgmma.bf16.f32", "sm90.mma.bf16.f32", "sm90.mma.bf16k8.f32", "sm80.mma.bf16.f32", "sm70.mma.f16.f32"})
    if (unit_named(unit).input == format::bf16) add("tensor core", fmt::format("products on {}", unit), [unit](attention_schedule& s) { s.unit = unit; });
  add("precision", "everything in FP32: sequential fma, P not rounded", [](attention_schedule& s) { s.forward_in_fp32 = true; });
  add("mask", "causal mask aligned to the first query and key", [](attention_schedule& s) { s.causal_mask = mask_alignment::top_left; });
  add("mask", "causal mask aligned to the last query and key", [](attention_schedule& s) { s.causal_mask = mask_alignment::bottom_right; });
  for (int parts : {2, 3, 4}) add("split keys", fmt::format("keys in {} parts, joined by their lse", parts), [parts](attention_schedule& s) { s.fixed_splits = parts; });
}

void near_kernels::add_tiles() {
  if (schedule_.forward_tiles.empty()) return;
  for (int width : {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 256, 4096}) {
    auto tiles = std::make_shared<std::vector<attention_tile>>(schedule_.forward_tiles.begin(), schedule_.forward_tiles.end());
    for (attention_tile& t : *tiles) t.key_columns = width;
    tiles_.push_back(tiles);
    add("key block", width == 4096 ? std::string("all keys in one block") : fmt::format("key blocks of {}", width), [tiles](attention_schedule& s) { s.forward_tiles = *tiles; });
  }
}

void near_kernels::add_backward_rules() {
  const auto rule = [&](const char* family, const char* name, auto member, auto value) { add(family, name, [=](attention_schedule& s) { s.backward.*member = value; }); };
  rule("backward exponent", "backward: EX2(fma(S, L, -lse2))", &backward_rules::weight, weight_form::fused);
  rule("backward exponent", "backward: EX2(rn(rn(S L) - lse2))", &backward_rules::weight, weight_form::scaled_difference);
  rule("backward exponent", "backward: expf(rn(rn(S s) - lse))", &backward_rules::weight, weight_form::natural);
  rule("backward exponent", "backward: EX2(rn(rn(rn(S s) - lse) log2 e))", &backward_rules::weight, weight_form::difference_scaled);
  rule("backward exponent", "backward: EX2(rn(fma(S, s, -lse) log2 e))", &backward_rules::weight, weight_form::fused_difference);
  for (auto [value, words] : {std::pair{delta_sum::lanes_of_eight, "delta in d/8 lanes"}, {delta_sum::eight_lanes, "delta in 8 lanes"}, {delta_sum::pairs_of_eight, "delta in d/8 lanes of pairs"},
                              {delta_sum::few_lanes, "delta in d/32 lanes"}, {delta_sum::serial, "delta in one lane"}, {delta_sum::tensor_core, "delta by the tensor core"},
                              {delta_sum::weighted_dp, "delta = rowsum(P dP) / rowsum(P)"}})
    rule("delta", words, &backward_rules::delta, value);
  rule("delta", "delta from the FP32 O", &backward_rules::delta_from, delta_source::fp32_output);
  rule("delta", "delta from O and what its cast lost", &backward_rules::delta_from, delta_source::high_and_low);
  rule("dS", "dS = rn(P rn(dP - delta))", &backward_rules::gradient, score_gradient::product_of_difference);
  rule("dS", "dS = rn(rn(P dP) - rn(P delta))", &backward_rules::gradient, score_gradient::difference_of_products);
  rule("dS", "dS = fma(P, dP, -rn(P delta))", &backward_rules::gradient, score_gradient::fused_products);
  rule("dS", "dS from the BF16 P", &backward_rules::gradient, score_gradient::from_bf16_weights);
  rule("scale of gradients", "the scale on the sums of dQ and dK", &backward_rules::scaled, scale_place::outputs);
  rule("scale of gradients", "the scale in dS before its cast", &backward_rules::scaled, scale_place::score_gradients);
  rule("order of queries", "blocks of queries descending", &backward_rules::queries, query_order::descending);
  rule("order of queries", "blocks of queries ascending", &backward_rules::queries, query_order::ascending);
  for (auto [value, words] : {std::pair{dq_sum::ascending, "parts of dQ added ascending"}, {dq_sum::descending, "parts of dQ added descending"}, {dq_sum::flash_attention_2, "parts of dQ in FlashAttention-2's buffers"},
                              {dq_sum::one_chain, "dQ in one chain"}})
    rule("dQ", words, &backward_rules::dq, value);
  rule("grouped heads", "dK and dV of a group: each head rounded to BF16, then added", &backward_rules::group, group_sum::bf16_outputs);
  rule("grouped heads", "dK and dV of a group: FP32 sums added", &backward_rules::group, group_sum::fp32_outputs);
  rule("backward subnormals", "backward: subnormals kept", &backward_rules::scalars, subnormals::kept);
  rule("backward subnormals", "backward: subnormals flushed", &backward_rules::scalars, subnormals::flushed);
  for (int keys : {32, 64, 80, 96, 128, 160}) {
    auto tiles = std::make_shared<std::vector<attention_tile>>(schedule_.backward_tiles.begin(), schedule_.backward_tiles.end());
    for (attention_tile& t : *tiles) t.key_columns = keys;
    tiles_.push_back(tiles);
    add("backward key block", fmt::format("backward: key blocks of {}", keys), [tiles](attention_schedule& s) { s.backward_tiles = *tiles; });
  }
}

void near_kernels::add_backward_faults() {
  const attention_schedule s = schedule_;
  const auto fault = [&](const char* family, const char* name, backward_fault f) {
    all_.push_back({name, family, [s, f](attention_problem const& p, bool gradients) { return gradients ? backward_with_fault(s, p, f) : results_of(s, p, false); }, {}});
  };
  fault("backward mask", "backward: the mask shows one key more", backward_fault::mask_one_more);
  fault("backward mask", "backward: the mask shows one key fewer", backward_fault::mask_one_fewer);
  fault("backward mask", "backward: no causal mask", backward_fault::no_mask);
  fault("backward lse", "backward: P from lse rounded to BF16", backward_fault::lse_in_bf16);
  fault("delta", "delta is left out: dS = P dP", backward_fault::no_delta);
  fault("outputs", "dK and dV are swapped", backward_fault::dk_and_dv_swapped);
  fault("scale of gradients", "dQ lacks the softmax scale", backward_fault::dq_not_scaled);
  fault("scale of gradients", "dQ has the softmax scale twice", backward_fault::dq_scaled_twice);
  fault("grouped heads", "dK and dV of a group: the last query head's alone", backward_fault::last_head_of_group);
  fault("grouped heads", "dK and dV of a group: the first query head's alone", backward_fault::first_head_of_group);
}

void near_kernels::add_calls() {
  const attention_schedule s = schedule_;
  const auto changed_call = [&](const char* family, const char* name, std::function<void(attention_problem&)> change) {
    add_call(family, name, [s, change](attention_problem const& p, bool gradients) {
      attention_problem changed = p;
      change(changed);
      return results_of(s, changed, gradients);
    });
  };
  add_call("mask", "the mask shows one key more", [s](attention_problem const& p, bool) { return forward_with_mask_moved(s, p, 1); });
  add_call("mask", "the mask shows one key fewer", [s](attention_problem const& p, bool) { return forward_with_mask_moved(s, p, -1); });
  changed_call("mask", "no causal mask", [](attention_problem& p) { p.causal = false; });
  changed_call("scale", "the softmax scale is ignored (1)", [](attention_problem& p) { p.softmax_scale = 1; });
  changed_call("scale", "the softmax scale is always 1/sqrt(d)", [](attention_problem& p) { p.softmax_scale = 1 / std::sqrt(double(p.head_dim)); });
  changed_call("scale", "the softmax scale is applied twice", [](attention_problem& p) { p.softmax_scale *= p.softmax_scale; });
  changed_call("scale", "the softmax scale lacks log2(e): base 2 for e", [](attention_problem& p) { p.softmax_scale /= 0x1.71547652b82fep+0; });
  changed_call("scale", "the softmax scale is rounded to BF16", [](attention_problem& p) { p.softmax_scale = to_double(bf16_of(p.softmax_scale)); });
  changed_call("scale", "Q is scaled and rounded to BF16 first", [](attention_problem& p) {
    for (bf16_code& c : p.q) c = bf16_of(to_double(c) * p.softmax_scale);
    p.softmax_scale = 1;
  });
  for (std::int64_t block : {16, 32, 64, 128}) {
    add_call("padding", fmt::format("the last, partial block of {} keys is left out", block), [s, block](attention_problem const& p, bool) {
      if (p.keys % block == 0 || p.keys < block || p.causal) throw unsupported_call("nothing left, or a mask");
      attention_problem cut = p;
      keep_keys(cut, p.keys / block * block);
      return results_of(s, cut, false);
    });
    add_call("padding", fmt::format("keys of padding, up to a multiple of {}, count with score 0", block), [s, block](attention_problem const& p, bool) {
      if (p.causal) throw unsupported_call("a mask hides the padding");
      attention_problem wide = p;
      wide.keys = (p.keys + block - 1) / block * block;
      wide.d_o.clear();
      wide.k.assign(std::size_t(p.batch * p.key_heads * wide.keys * p.head_dim), bf16_code::zero());
      wide.v = wide.k;
      each_key(p, [&](auto b, auto h, auto j) {
        std::copy_n(p.k.begin() + std::int64_t(key_at(p, b, h, j, 0)), p.head_dim, wide.k.begin() + std::int64_t(key_at(wide, b, h, j, 0)));
        std::copy_n(p.v.begin() + std::int64_t(key_at(p, b, h, j, 0)), p.head_dim, wide.v.begin() + std::int64_t(key_at(wide, b, h, j, 0)));
      });
      return results_of(s, wide, false);
    });
  }
  add_call("heads", "query head h uses key head h mod the number of key heads", [s](attention_problem const& p, bool) {
    attention_problem wide = p;
    wide.key_heads = p.heads;
    wide.d_o.clear();
    wide.k.assign(std::size_t(p.batch * p.heads * p.keys * p.head_dim), bf16_code::zero());
    wide.v = wide.k;
    each_key(wide, [&](auto b, auto h, auto j) {
      const auto from = std::int64_t(key_at(p, b, h % p.key_heads, j, 0)), to = std::int64_t(key_at(wide, b, h, j, 0));
      std::copy_n(p.k.begin() + from, p.head_dim, wide.k.begin() + to);
      std::copy_n(p.v.begin() + from, p.head_dim, wide.v.begin() + to);
    });
    return results_of(s, wide, false);
  });
}

void near_kernels::add_rows() {
  const attention_schedule s = schedule_;
  const auto row = [&](const char* family, const char* name, row_fault fault) { add_call(family, name, [s, fault](attention_problem const& p, bool) { return forward_with_fault(s, p, fault); }); };
  row("rescale", "O is not rescaled when the maximum grows", row_fault::output_not_rescaled);
  row("precision", "O is accumulated in BF16", row_fault::bf16_accumulator);
  row("precision", "P is not rounded to BF16: P V by fma in FP32", row_fault::weights_not_rounded);
  row("rescale", "the row sum is not rescaled when the maximum grows", row_fault::sum_not_rescaled);
  row("precision", "P V in TF32, P cut", row_fault::tf32_cut);
  row("precision", "P V in TF32, P rounded to nearest, ties away", row_fault::tf32_rounded);
  // BF16 operands are exact in TF32; only the steps of k are shorter.
  attention_schedule both = s;
  both.unit = "sm90.mma.bf16k8.f32";
  for (auto [name, fault] : {std::pair{"Q K^T and P V in TF32, P cut", row_fault::tf32_cut}, {"Q K^T and P V in TF32, P rounded to nearest, ties away", row_fault::tf32_rounded}})
    if (both.unit != s.unit) add_call("precision", name, [both, fault](attention_problem const& p, bool) { return forward_with_fault(both, p, fault); });
}

}  // namespace stickybit::detail
