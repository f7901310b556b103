// FlashAttention's forward pass, row by row: rows never meet, so only the key blocks' width and order decide the bits. The
// tile of query rows decides which wholly masked blocks a row meets, which only infinities and NaN can show.
#include "stickybit/attention/forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// What the kernel's host code settles before it starts.
struct call_plan {
  machine_unit const* unit;
  special_function_tables const* tables;
  bool causal;
  forward_tile tile;
  std::int64_t packed_heads;  ///< query heads of a group that share a tile; 1: not packed
  f32_code scale_log2;
};

/// @source flash-attention 0251105a hopper/heuristics.h, should_pack_gqa: packed when it fills tiles clearly better
std::int64_t packed_heads(attention_problem const& p, int query_rows) {
  const std::int64_t group = p.heads / p.key_heads;
  if (group == 1) return 1;
  const auto filled = [&](std::int64_t rows) { return float(rows) / float(ceil_div(rows, query_rows) * query_rows); };
  return filled(p.queries) < 0.9 * filled(p.queries * group) ? group : 1;
}

call_plan plan_of(attention_schedule const& schedule, attention_problem const& p) {
  const bool causal = p.causal && p.queries != 1;  // one query sees all keys; the kernel's API runs it as not causal
  forward_tile const* tile = forward_tile_of(schedule, p.head_dim, causal);
  if (tile == nullptr) throw unsupported_call(fmt::format("schedule {} has no tile for head dimension {}: expected 64 or 128", schedule.name, p.head_dim));
  machine_unit const& unit = unit_named(schedule.unit);
  return {&unit, sm90().special_functions, causal, *tile, packed_heads(p, tile->query_rows), scale_log2_of(p.softmax_scale)};
}

/// The key blocks that a row's tile visits, from last − 1 down to 0, and where the kernel guards against empty rows.
struct block_range {
  std::int64_t last;
  std::int64_t first_guarded;
};

block_range blocks_of(call_plan const& plan, attention_problem const& p, std::int64_t head, std::int64_t row) {
  const std::int64_t width = plan.tile.key_columns, all = ceil_div(p.keys, width);
  if (!plan.causal) return {all, all - 1};
  const std::int64_t packed_row = row * plan.packed_heads + head % plan.packed_heads;
  const std::int64_t tile = packed_row / plan.tile.query_rows;
  const std::int64_t first_row = tile * plan.tile.query_rows / plan.packed_heads;
  const std::int64_t end_row = ((tile + 1) * plan.tile.query_rows - 1) / plan.packed_heads + 1;
  const std::int64_t last = std::min(all, ceil_div(end_row + p.keys - p.queries, width));
  return {last, std::min(last - 1, std::max<std::int64_t>(0, first_row + p.keys - p.queries) / width)};
}

/// K and V of one key head, packed for both engines.
struct key_value_panels {
  column_panel keys;    // Kᵀ[d × s_k]
  column_panel values;  // V[s_k × d]

  key_value_panels(attention_problem const& p, std::int64_t b, std::int64_t key_head)
      : keys(p.k.data() + p.key_strides().offset(b, key_head, 0), p.head_dim, p.keys, 1, p.key_strides().row),
        values(p.v.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row, 1) {}
};

/// One thread's worker: the law of the kernel for one row.
template <class Scalars>
class row_worker {
 public:
  row_worker(call_plan const& plan, attention_problem const& p, engine how) : plan_(plan), problem_(p), product_(*plan.unit, how) {
    scores_.resize(std::size_t(plan.tile.key_columns));
    weights_.resize(std::size_t(plan.tile.key_columns));
    output_.resize(std::size_t(p.head_dim));
  }

  /// O[d] to `o`; sum, maximum and lse returned.
  template <class Sink>
  softmax_finished run(key_value_panels const& panels, std::int64_t b, std::int64_t head, std::int64_t row, bf16_code* o, Sink&& sink) {
    const auto q = std::span(problem_.q).subspan(std::size_t(problem_.query_strides().offset(b, head, row)), std::size_t(problem_.head_dim));
    const block_range range = blocks_of(plan_, problem_, head, row);
    online_softmax<Scalars> softmax(*plan_.tables, plan_.scale_log2);
    std::fill(output_.begin(), output_.end(), f32_code::zero());
    for (std::int64_t block = range.last - 1; block >= 0; --block) take_block(panels, q, row, block, block >= range.first_guarded, softmax, sink);
    const softmax_finished finished = softmax.finish(sink);
    for (std::size_t j = 0; j < output_.size(); ++j) o[j] = Scalars::to_bf16(Scalars::mul(output_[j], finished.inverse_sum));
    return finished;
  }

 private:
  template <class Sink>
  void take_block(key_value_panels const& panels, std::span<bf16_code const> q, std::int64_t row, std::int64_t block, bool guard_empty,
                  online_softmax<Scalars>& softmax, Sink&& sink) {
    const std::int64_t first = block * plan_.tile.key_columns;
    const auto columns = std::size_t(std::min<std::int64_t>(plan_.tile.key_columns, problem_.keys - first));
    const auto scores = std::span(scores_).first(columns);  // S[block]
    std::fill(scores.begin(), scores.end(), f32_code::zero());
    product_.accumulate(q, panels.keys, 0, first, scores);
    if (plan_.causal)
      for (std::int64_t j = std::max<std::int64_t>(0, row + problem_.keys - problem_.queries + 1 - first); j < std::int64_t(columns); ++j)
        scores[std::size_t(j)] = f32_code::infinity(true);

    const bool first_block = softmax.empty();
    const f32_code rescale = softmax.take_block(scores, first, guard_empty, sink);
    std::transform(scores.begin(), scores.end(), weights_.begin(), [](f32_code p) { return Scalars::to_bf16(p); });  // P[block]
    if (!first_block)
      for (f32_code& x : output_) x = Scalars::mul(x, rescale);
    output_block event{first, {}, {}};
    constexpr bool traced = !std::same_as<std::remove_cvref_t<Sink>, null_sink>;
    if constexpr (traced) event.rescaled = output_;
    product_.accumulate(std::span(weights_).first(columns), panels.values, first, 0, output_);
    if constexpr (traced) {
      event.accumulated = output_;
      sink(event);
    }
  }

  call_plan const& plan_;
  attention_problem const& problem_;
  row_times_panel product_;
  std::vector<f32_code> scores_;
  std::vector<bf16_code> weights_;
  std::vector<f32_code> output_;
};

template <class Scalars>
forward_result forward(call_plan const& plan, attention_problem const& p, engine how, progress const& report) {
  forward_result result;
  result.o.resize(p.q.size());
  result.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  const std::int64_t group = p.heads / p.key_heads, total = p.batch * p.heads * p.queries;
  std::int64_t done = 0;
  row_worker<Scalars>(plan, p, how);  // throws here, not inside the parallel region
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const key_value_panels panels(p, b, key_head);
#pragma omp parallel
      {
        row_worker<Scalars> worker(plan, p, how);
#pragma omp for schedule(dynamic, 8)
        for (std::int64_t item = 0; item < group * p.queries; ++item) {
          const std::int64_t head = key_head * group + item / p.queries, row = item % p.queries;
          bf16_code* o = result.o.data() + p.query_strides().offset(b, head, row);
          result.lse[std::size_t((b * p.heads + head) * p.queries + row)] = worker.run(panels, b, head, row, o, null_sink{}).lse;
          if (report) {
#pragma omp critical(stickybit_progress)
            report(++done, total);
          }
        }
      }
    }
  return result;
}

/// Sorts the events of a row into a forward_row_trace.
struct trace_builder {
  forward_row_trace& trace;
  void operator()(softmax_block const& e) { trace.blocks.push_back(e); }
  void operator()(softmax_weight const& e) { trace.weights.push_back(e); }
  void operator()(softmax_finished const& e) { trace.finished = e; }
  void operator()(output_block const& e) { trace.outputs.push_back(e); }
};

}  // namespace

forward_result attention_forward(attention_schedule const& schedule, attention_problem const& problem, engine how, progress const& report) {
  const call_plan plan = plan_of(schedule, problem);
  if (how == engine::fast && host::is_ieee()) return forward<host_scalars>(plan, problem, engine::fast, report);
  return forward<defined_scalars>(plan, problem, engine::definition, report);
}

forward_row_trace trace_forward_row(attention_schedule const& schedule, attention_problem const& p, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const call_plan plan = plan_of(schedule, p);
  const auto inside = [](const char* what, std::int64_t index, std::int64_t size) {
    if (index < 0 || index >= size) throw std::out_of_range(fmt::format("{} {}: expected 0 to {}", what, index, size - 1));
  };
  inside("batch element", batch, p.batch);
  inside("head", head, p.heads);
  inside("row", row, p.queries);
  forward_row_trace trace;
  trace.o.resize(std::size_t(p.head_dim));
  const key_value_panels panels(p, batch, p.key_head_of(head));
  row_worker<defined_scalars>(plan, p, engine::definition).run(panels, batch, head, row, trace.o.data(), trace_builder{trace});
  return trace;
}

}  // namespace stickybit
