#include "stickybit/attention/backward.hpp"

#include <fmt/format.h>

#include "group_gradient.hpp"
#include "head_backward.hpp"
#include "reference_backward.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;

/// dQ of one head from its buffers.
template <class Scalars>
void finish_dq(backward_plan const& plan, head_sums const& sums, attention_problem const& p, std::int64_t b, std::int64_t head, backward_result& result) {
  const auto d = std::size_t(p.head_dim), size = std::size_t(p.queries) * d;
  std::vector<f32_code> buffers(std::size_t(plan.dq_buffers));
  for (std::int64_t row = 0; row < p.queries; ++row)
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] = sums.dq[i * size + std::size_t(row) * d + j];
      const f32_code sum = dq_before_cast<Scalars>(*plan.rules, plan.scales.scale, buffers);
      const std::size_t to = std::size_t(p.query_strides().offset(b, head, row)) + j;
      result.dq[to] = Scalars::to_bf16(sum);
      if (!result.dq_f32.empty()) result.dq_f32[to] = sum;
    }
}

template <template <subnormals> class Arithmetic, subnormals S, class Operand>
backward_result backward(backward_plan const& plan, attention_problem const& p, forward_result const& forward, backward_options const& options, engine how) {
  backward_result result = room_for(p, options);
  const auto d = std::size_t(p.head_dim), key_elements = std::size_t(p.keys) * d;
  const std::int64_t group = p.heads / p.key_heads, total = p.batch * p.heads * plan.key_blocks;
  const std::optional<f32_code> scale = plan.rules->scaled == scale_place::outputs ? std::optional(plan.scales.scale) : std::nullopt;
  std::int64_t done = 0;
  const auto block_done = [&] {
    ++done;
    if (options.report) options.report(done, total);
  };
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const backward_key_panels panels(p, b, key_head);
      group_gradient<Arithmetic, S> dk(*plan.rules, group, key_elements), dv(*plan.rules, group, key_elements);
      for (std::int64_t i = 0; i < group; ++i) {
        const std::int64_t head = key_head * group + i;
        const head_sums sums = head_backward<Arithmetic, S, Operand>(plan, p, forward, options, how, panels, b, head).run(block_done);
        finish_dq<Arithmetic<S>>(plan, sums, p, b, head, result);
        dk.add(i, sums.dk, scale);
        dv.add(i, sums.dv, std::nullopt);
        const std::int64_t first_row = (b * p.heads + head) * p.queries;
        std::copy(sums.delta.begin(), sums.delta.end(), result.delta.begin() + first_row);
        std::copy(sums.lse_log2.begin(), sums.lse_log2.end(), result.lse_log2.begin() + first_row);
      }
      const auto store = [&]<class Code>(std::span<Code const> gradient, std::vector<Code>& to) {
        for (std::int64_t key = 0; key < p.keys; ++key)
          std::copy_n(gradient.begin() + key * p.head_dim, p.head_dim, to.begin() + p.key_strides().offset(b, key_head, key));
      };
      store(dk.finish(), result.dk);
      store(dv.finish(), result.dv);
      if (options.keep_f32) store(dk.before_cast(), result.dk_f32);
    }
  return result;
}

}  // namespace

backward_result attention_backward(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, backward_options const& options) {
  const host::ieee_environment ieee;
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("attention_backward: the problem has no dO: expected a tensor 'do' of q's shape");
  if (forward.o.size() != p.q.size() || forward.lse.size() != std::size_t(p.batch * p.heads * p.queries))
    throw std::invalid_argument(fmt::format("attention_backward: O has {} elements and lse {}, expected {} and {}", forward.o.size(), forward.lse.size(), p.q.size(), p.batch * p.heads * p.queries));
  if (schedule.kind == schedule_kind::exact_value) return exact_backward(schedule, p, options);
  if (schedule.kind == schedule_kind::eager) return eager_backward(schedule, p, options);
  if (schedule.backward.delta_from != delta_source::bf16_output && forward.o_f32.size() != p.q.size())
    throw std::invalid_argument("attention_backward: delta is formed from the FP32 O, which is not there");
  if (schedule.smooths_keys) return attention_backward(without_smoothing(schedule), smooth_keys(p, mask_of(schedule, p), schedule.backward.scalars), forward, options);
  backward_plan plan = plan_backward(schedule, p, options.dq_order);
  if (!options.visible.empty()) {
    if (std::ssize(options.visible) != p.queries)
      throw std::invalid_argument(fmt::format("attention_backward: visible keys of {} rows, expected {}", options.visible.size(), p.queries));
    plan.visible_rows = options.visible;
    plan.mask = mask_alignment::none;
  }
  const bool flushed = schedule.backward.scalars == subnormals::flushed, fast = options.how == engine::fast && host::is_ieee();
  const auto run = [&]<class Operand>(Operand) {
    if (fast) return flushed ? backward<host_scalars, subnormals::flushed, Operand>(plan, p, forward, options, engine::fast) : backward<host_scalars, subnormals::kept, Operand>(plan, p, forward, options, engine::fast);
    return flushed ? backward<defined_scalars, subnormals::flushed, Operand>(plan, p, forward, options, engine::definition)
                   : backward<defined_scalars, subnormals::kept, Operand>(plan, p, forward, options, engine::definition);
  };
  return schedule.backward_in_fp32 ? run(f32_code{}) : run(bf16_code{});
}

}  // namespace stickybit
