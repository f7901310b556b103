#include <algorithm>
#include <map>
#include <mutex>

#include "drawing.hpp"
#include "near_kernels.hpp"
#include "property_parts.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit::detail {
namespace {

/// Keys that each row sees, the first so many, if the mask is moved.
std::vector<std::int64_t> visible_with(attention_schedule const& schedule, attention_problem const& p, backward_fault fault) {
  if (mask_of(schedule, p) == mask_alignment::none) throw unsupported_call("no mask");
  const std::int64_t more = fault == backward_fault::mask_one_more ? 1 : -1;
  const std::int64_t offset = mask_of(schedule, p) == mask_alignment::bottom_right ? p.keys - p.queries : 0;
  std::vector<std::int64_t> all(std::size_t(p.queries), p.keys);
  if (fault != backward_fault::no_mask)
    for (std::int64_t i = 0; i < p.queries; ++i) all[std::size_t(i)] = std::clamp<std::int64_t>(i + 1 + offset + more, 0, p.keys);
  return all;
}

/// dQ again from the parts of its key blocks.
void rescale_dq(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, int scalings, kernel_results& r) {
  backward_rules const& rules = schedule.backward;
  if (rules.dq == dq_sum::one_chain || rules.dq == dq_sum::flash_attention_2 || rules.scaled != scale_place::outputs) throw unsupported_call("dQ is not a sum of parts");
  struct part {
    std::int64_t batch, head, row, block;
    std::vector<f32_code> values;
  };
  std::vector<part> parts;
  std::mutex lock;
  (void)attention_backward(schedule, p, forward, {.dq_parts = [&](dq_part const& x) {
    const std::scoped_lock hold(lock);
    parts.push_back({x.batch, x.head, x.row, x.block, {x.part.begin(), x.part.end()}});
  }});
  const bool descending = rules.dq == dq_sum::descending || (rules.dq == dq_sum::causal_descending && mask_of(schedule, p) != mask_alignment::none);
  std::sort(parts.begin(), parts.end(), [&](part const& a, part const& b) { return descending ? a.block > b.block : a.block < b.block; });
  std::vector<f32_code> sums(p.q.size(), f32_code::zero());
  const host::ieee_environment ieee;
  for (part const& x : parts)
    for (std::size_t c = 0; c < x.values.size(); ++c) {
      f32_code& sum = sums[query_at(p, x.batch, x.head, x.row, std::int64_t(c))];
      sum = rules.dq_additions == subnormals::flushed ? host::add_ftz(sum, x.values[c]) : host::add(sum, x.values[c]);
    }
  const f32_code scale = code_of(float(p.softmax_scale));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (int n = 0; n < scalings; ++n) sums[i] = rules.scalars == subnormals::flushed ? host::mul_ftz(sums[i], scale) : host::mul(sums[i], scale);
    r.dq[i] = convert<format::bf16>(sums[i], rounding::nearest_even);
  }
}

/// dK and dV from one query head of each group.
void one_head_of_group(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, bool last, kernel_results& r) {
  const std::int64_t group = p.heads / p.key_heads;
  attention_problem few = p;
  few.heads = p.key_heads;
  few.q.assign(std::size_t(p.batch * few.heads * p.queries * p.head_dim), bf16_code::zero());
  few.d_o = few.q;
  forward_result f;
  f.o = few.q;
  f.lse.resize(std::size_t(p.batch * few.heads * p.queries));
  if (!forward.o_f32.empty()) f.o_f32.resize(f.o.size());
  each_query(few, [&](auto b, auto h, auto i) {
    const std::int64_t from_head = h * group + (last ? group - 1 : 0);
    const std::size_t from = query_at(p, b, from_head, i, 0), to = query_at(few, b, h, i, 0);
    const auto copy = [&](auto const& a, auto& c) { std::copy_n(a.begin() + std::ptrdiff_t(from), p.head_dim, c.begin() + std::ptrdiff_t(to)); };
    copy(p.q, few.q);
    copy(p.d_o, few.d_o);
    copy(forward.o, f.o);
    if (!f.o_f32.empty()) copy(forward.o_f32, f.o_f32);
    f.lse[std::size_t((b * few.heads + h) * p.queries + i)] = forward.lse[std::size_t((b * p.heads + from_head) * p.queries + i)];
  });
  backward_result g = attention_backward(schedule, few, f);
  r.dk = std::move(g.dk);
  r.dv = std::move(g.dv);
}

}  // namespace

kernel_results backward_with_fault(attention_schedule const& schedule, attention_problem const& p, backward_fault fault) {
  const forward_result forward = attention_forward(schedule, p);
  forward_result stored = forward;
  backward_options options;
  switch (fault) {
    case backward_fault::mask_one_more:
    case backward_fault::mask_one_fewer:
    case backward_fault::no_mask: options.visible = visible_with(schedule, p, fault); break;
    case backward_fault::lse_in_bf16:
      for (f32_code& x : stored.lse) x = widen(convert<format::bf16>(x, rounding::nearest_even));
      break;
    case backward_fault::no_delta:
      if (schedule.backward.delta == delta_sum::weighted_dp) throw unsupported_call("delta is not formed from O");
      std::ranges::fill(stored.o, bf16_code::zero());
      std::ranges::fill(stored.o_f32, f32_code::zero());
      break;
    default: break;
  }
  backward_result g = attention_backward(schedule, p, stored, options);
  kernel_results r{forward.o, forward.lse, std::move(g.dq), std::move(g.dk), std::move(g.dv)};
  if (fault == backward_fault::dk_and_dv_swapped) std::swap(r.dk, r.dv);
  if (fault == backward_fault::dq_not_scaled) rescale_dq(schedule, p, forward, 0, r);
  if (fault == backward_fault::dq_scaled_twice) rescale_dq(schedule, p, forward, 2, r);
  if (fault == backward_fault::last_head_of_group || fault == backward_fault::first_head_of_group) one_head_of_group(schedule, p, forward, fault == backward_fault::last_head_of_group, r);
  return r;
}

}  // namespace stickybit::detail
