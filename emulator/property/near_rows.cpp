#include <algorithm>
#include <array>
#include <optional>

#include "drawing.hpp"
#include "near_kernels.hpp"
#include "property_parts.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "stickybit/softmax/scalars.hpp"

namespace stickybit::detail {
namespace {

bool in_tf32(row_fault fault) { return fault == row_fault::tf32_cut || fault == row_fault::tf32_rounded; }

/// A row's sum of weights, lanes and joins as the rules have them, but never rescaled.
template <class Scalars>
class sum_without_rescale {
 public:
  explicit sum_without_rescale(forward_rules const& rules) : rules_(rules) {}

  void add(std::span<f32_code const> p) {
    std::vector<f32_code> x(p.begin(), p.end());
    if (rules_.summed == sum_of::bf16_weights)
      for (f32_code& e : x) e = widen(Scalars::to_bf16(e));
    switch (rules_.start) {
      case sum_start::carried:
      case sum_start::carried_twice: return Scalars::add_in_lanes(x, lanes_);
      case sum_start::block:
      case sum_start::block_twice: {
        std::array<f32_code, 4> block{};
        Scalars::add_in_lanes(x, block);
        for (std::size_t i = 0; i < 4; ++i) lanes_[i] = Scalars::add(lanes_[i], block[i]);
        return;
      }
      case sum_start::block_row:
      case sum_start::block_row_twice: return add_joined(x);
      case sum_start::slices:
        for (std::size_t at = 0; at < x.size(); at += 32) add_joined(std::span(x).subspan(at, std::min<std::size_t>(32, x.size() - at)));
    }
  }
  [[nodiscard]] f32_code joined() const {
    const bool by_rows = rules_.start == sum_start::block_row || rules_.start == sum_start::block_row_twice || rules_.start == sum_start::slices;
    return by_rows ? lanes_[0] : join(lanes_);
  }

 private:
  [[nodiscard]] f32_code join(std::array<f32_code, 4> const& l) const {
    return rules_.join == lane_join::far_first ? Scalars::add(Scalars::add(l[0], l[2]), Scalars::add(l[1], l[3])) : Scalars::add(Scalars::add(l[0], l[1]), Scalars::add(l[2], l[3]));
  }
  void add_joined(std::span<f32_code const> x) {
    std::array<f32_code, 4> block{};
    Scalars::add_in_lanes(x, block);
    lanes_[0] = Scalars::add(lanes_[0], join(block));
  }

  forward_rules const& rules_;
  std::array<f32_code, 4> lanes_{};
};

/// V of a head as each product takes it.
struct head_values {
  column_panel bf16;
  std::optional<column_panel> tf32;
};

/// P·V again from the weights of the trace, and the division.
template <class Scalars>
void faulty_row(attention_schedule const& schedule, head_values const& values, forward_row_trace const& t, row_fault fault, std::span<bf16_code> o) {
  constexpr f32_code one = f32_code::from_bits(0x3f800000);
  rows_times_panel product(unit_named(in_tf32(fault) ? "sm90.mma.tf32.f32" : schedule.unit), engine::fast);
  const auto d = std::int64_t(o.size());
  std::vector<f32_code> out(o.size(), f32_code::zero());
  sum_without_rescale<Scalars> sum(schedule.rules);
  std::size_t at = 0;
  for (std::size_t block = 0; block < t.blocks.size(); ++block) {
    const std::int64_t first = t.blocks[block].first_column, next = block + 1 < t.blocks.size() ? t.blocks[block + 1].first_column : -1;
    std::vector<f32_code> p;
    for (; at < t.weights.size() && t.weights[at].column == first + std::int64_t(p.size()) && t.weights[at].column != next; ++at) p.push_back(t.weights[at].weight);
    if (block > 0 && fault != row_fault::output_not_rescaled) Scalars::mul(out, t.blocks[block].rescale, out);
    if (fault == row_fault::sum_not_rescaled) sum.add(p);
    const auto count = std::int64_t(p.size());
    const matrix_rows<f32_code> to(out.data(), 1, d, d);
    if (fault == row_fault::weights_not_rounded) {
      for (std::size_t j = 0; j < p.size(); ++j)
        for (std::int64_t c = 0; c < d; ++c) out[std::size_t(c)] = Scalars::fma(p[j], widen(values.bf16.at(first + std::int64_t(j), c)), out[std::size_t(c)]);
    } else if (in_tf32(fault)) {
      std::vector<std::uint32_t> cast(p.size());
      // An infinity or NaN is left alone by the rounding; no carry can reach one from a weight, which is at most 1.
      for (std::size_t j = 0; j < p.size(); ++j) cast[j] = (p[j].to_bits() + (fault == row_fault::tf32_rounded && p[j].is_finite() ? 0x1000u : 0u)) & 0xffffe000u;
      product.accumulate(raw_rows{code_array(cast), 1, count, count}, *values.tf32, first, 0, to);
    } else {
      std::vector<bf16_code> cast(p.size());
      Scalars::to_bf16(p, cast);
      product.accumulate(matrix_rows<bf16_code const>(cast.data(), 1, count, count), values.bf16, first, 0, to);
    }
    if (fault == row_fault::bf16_accumulator)
      for (f32_code& x : out) x = widen(Scalars::to_bf16(x));
  }
  if (t.finished.empty()) throw unsupported_call("a row without a sum");
  f32_code divisor = t.finished[0].divisor, inverse = t.finished[0].inverse_sum;
  // A sum of 0 or NaN is one with and without its factors, and what comes of it is a rule of the schedule.
  if (fault == row_fault::sum_not_rescaled && !sum.joined().is_zero() && !sum.joined().is_nan()) {
    divisor = sum.joined();
    inverse = schedule.rules.inverse == inverse_form::mufu ? rcp(*sm90().special_functions, divisor) : Scalars::div(one, divisor);
  }
  for (f32_code& x : out) x = schedule.rules.inverse == inverse_form::division ? Scalars::div(x, divisor) : Scalars::mul(x, inverse);
  Scalars::to_bf16(out, o);
}

}  // namespace

kernel_results forward_with_fault(attention_schedule const& schedule, attention_problem const& p, row_fault fault) {
  if (schedule.kind != schedule_kind::online || schedule.rules.output == output_form::round_then_divide || schedule.smooths_keys) throw unsupported_call("not computed block by block");
  kernel_results r;
  r.o.resize(p.q.size());
  r.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t stride = p.key_strides().row;
      bf16_code const* v = p.v.data() + key_at(p, b, p.key_head_of(h), 0, 0);
      head_values values{column_panel(v, p.keys, p.head_dim, stride, 1), std::nullopt};
      if (in_tf32(fault)) {
        std::vector<std::uint32_t> wide(std::size_t(p.keys * p.head_dim));
        for (std::int64_t j = 0; j < p.keys; ++j)
          for (std::int64_t c = 0; c < p.head_dim; ++c) wide[std::size_t(j * p.head_dim + c)] = widen(v[j * stride + c]).to_bits();
        values.tf32.emplace(format::tf32, code_array(wide), p.keys, p.head_dim, p.head_dim, 1);
      }
      for (std::int64_t i = 0; i < p.queries; ++i) {
        const forward_row_trace t = trace_forward_row(schedule, p, b, h, i);
        if (!t.parts.empty()) throw unsupported_call("split keys");
        if (t.blocks.empty()) {  // no key is seen: nothing of the fault shows
          const std::size_t row = query_at(p, b, h, i, 0);
          std::fill_n(r.o.begin() + std::ptrdiff_t(row), p.head_dim, bf16_code::zero());
          r.lse[std::size_t((b * p.heads + h) * p.queries + i)] = t.ready.lse;
          continue;
        }
        const std::span<bf16_code> o(r.o.data() + query_at(p, b, h, i, 0), std::size_t(p.head_dim));
        if (schedule.rules.scalars == subnormals::flushed) faulty_row<host_scalars<subnormals::flushed>>(schedule, values, t, fault, o);
        else faulty_row<host_scalars<subnormals::kept>>(schedule, values, t, fault, o);
        r.lse[std::size_t((b * p.heads + h) * p.queries + i)] = t.ready.lse;
      }
    }
  if (fault == row_fault::sum_not_rescaled) r.lse.clear();
  return r;
}

kernel_results forward_with_mask_moved(attention_schedule const& schedule, attention_problem const& p, std::int64_t more) {
  if (mask_of(schedule, p) == mask_alignment::none) throw unsupported_call("no mask");
  const std::int64_t offset = (mask_of(schedule, p) == mask_alignment::bottom_right ? p.keys - p.queries : 0) + more;  // row i sees i + 1 + offset keys
  attention_problem moved = p;
  attention_schedule changed = schedule;
  std::int64_t before = 0, after = 0;  // rows that are put there, or (before < 0) left out
  if (offset < 0 && p.keys - offset - p.queries >= 0) {
    changed.causal_mask = mask_alignment::bottom_right;
    after = p.keys - offset - p.queries;
  } else {
    changed.causal_mask = mask_alignment::top_left;
    before = offset;
    if (offset < 0 && more < 0) throw unsupported_call("rows without a key that the schedule shows one");
  }
  kernel_results r;
  if (before < 0) r = results_of(schedule, p, false);  // of the rows left out, which see no key either way
  moved.queries = before + p.queries + after;
  if (moved.queries <= 0) return r;
  moved.d_o.clear();
  moved.q.assign(std::size_t(p.batch * p.heads * moved.queries * p.head_dim), bf16_code::zero());
  each_query(p, [&](auto b, auto h, auto i) {
    if (i + before >= 0) std::copy_n(p.q.begin() + std::int64_t(query_at(p, b, h, i, 0)), p.head_dim, moved.q.begin() + std::int64_t(query_at(moved, b, h, i + before, 0)));
  });
  const forward_result f = attention_forward(changed, moved);
  r.o.resize(p.q.size());
  r.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  each_query(p, [&](auto b, auto h, auto i) {
    if (i + before < 0) return;
    std::copy_n(f.o.begin() + std::int64_t(query_at(moved, b, h, i + before, 0)), p.head_dim, r.o.begin() + std::int64_t(query_at(p, b, h, i, 0)));
    r.lse[std::size_t((b * p.heads + h) * p.queries + i)] = f.lse[std::size_t((b * p.heads + h) * moved.queries + i + before)];
  });
  return r;
}

}  // namespace stickybit::detail
