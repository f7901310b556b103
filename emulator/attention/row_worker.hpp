#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "call_plan.hpp"
#include "row_product.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/softmax/scalars.hpp"

// The law of a forward kernel for rows. Rows never meet, so only the key blocks' width and order decide the bits; the tile of
// query rows decides which wholly masked blocks a row meets, which only infinities and NaN can show.

namespace stickybit::detail {

/// K and V of one key head, packed for both engines.
struct key_value_panels {
  column_panel keys;    // Kᵀ[d × s_k]
  column_panel values;  // V[s_k × d]

  key_value_panels(attention_problem const& p, std::int64_t b, std::int64_t key_head)
      : keys(p.k.data() + p.key_strides().offset(b, key_head, 0), p.head_dim, p.keys, 1, p.key_strides().row),
        values(p.v.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row, 1) {}
};

template <class Sink>
inline constexpr bool is_traced = !std::same_as<std::remove_cvref_t<Sink>, null_sink>;

/// Neighbouring query rows of one head that run together: they meet the same blocks of keys in the same forms.
struct row_group {
  std::int64_t batch, head, first, count;
};

/// One thread's worker, with its scratch memory. Operand: what P·V takes P as: Scalars::narrow or Scalars::number.
template <class Scalars, class Operand = typename Scalars::narrow>
class row_worker {
 public:
  using number = typename Scalars::number;
  using narrow = typename Scalars::narrow;

  row_worker(call_plan const& plan, attention_problem const& p, engine how)
      : plan_(plan), problem_(p), rules_(*plan.rules), product_(*plan.unit, how), columns_(std::size_t(plan.tile.key_columns)), d_(std::size_t(p.head_dim)) {}

  /// How many of the rows from `row` on may run as a group, at most `most`.
  [[nodiscard]] static std::int64_t rows_together(call_plan const& plan, attention_problem const& p, std::int64_t head, std::int64_t row, std::int64_t most) {
    std::int64_t count = 1;
    while (count < most && row + count < p.queries && share_tile(plan, head, row, row + count)) ++count;
    return count;
  }

  /// O before its cast, of the rows last run: [count × d].
  [[nodiscard]] std::span<number const> output() const noexcept { return output_; }

  /// O and lse of a group of rows.
  /// @param o    first row of O; rows are o_stride elements apart
  /// @param lse  [count]
  /// @param known_scores  S of a single row, where the caller has it already: [keys], or empty
  template <class Panels, class Sink>
  void run(Panels const& panels, row_group rows, narrow* o, std::int64_t o_stride, number* lse, Sink&& sink, std::span<number const> known_scores = {}) {
    known_scores_ = known_scores;
    make_room(std::size_t(rows.count));
    if (plan_.splits == 1) run_part(panels, rows, 0, {lse, std::size_t(rows.count)}, sink);
    else join_parts(panels, rows, {lse, std::size_t(rows.count)}, sink);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::span<number> x = output_row(i);
      const std::span<narrow> to(o + i * o_stride, d_);
      if (plan_.splits == 1 && rules_.output == output_form::round_then_divide) divide_rounded(x, sum_[std::size_t(i)]);
      else if constexpr (is_traced<Sink>) sink(output_ready_of<number>{{x.begin(), x.end()}, lse[i]});
      Scalars::to_bf16(x, to);
    }
  }

  /// One row: lse returned.
  template <class Panels, class Sink>
  number run(Panels const& panels, std::int64_t b, std::int64_t head, std::int64_t row, narrow* o, Sink&& sink, std::span<number const> known_scores = {}) {
    number lse;
    run(panels, {b, head, row, 1}, o, 0, &lse, sink, known_scores);
    return lse;
  }

 private:
  void make_room(std::size_t rows) {
    scores_.resize(rows * columns_);
    weights_.resize(rows * columns_);
    output_.resize(rows * d_);
    sum_.resize(rows);
    while (softmax_.size() < rows) softmax_.emplace_back(plan_.ex2, rules_, plan_.scales);
  }
  std::span<number> output_row(std::int64_t i) { return std::span(output_).subspan(std::size_t(i) * d_, d_); }

  /// One part of the keys: output_ becomes O of that part in FP32, divided by its sum (unless O is rounded first).
  template <class Panels, class Sink>
  void run_part(Panels const& panels, row_group rows, std::int64_t part, std::span<number> lse, Sink&& sink) {
    const block_range range = blocks_of(plan_, problem_, rows.head, rows.first, part);
    for (std::size_t i = 0; i < lse.size(); ++i) softmax_[i].restart();
    std::fill(output_.begin(), output_.end(), f32_code::zero());
    const auto take = [&](std::int64_t block) { take_block(panels, rows, block, block >= range.masked_from, sink); };
    if (rules_.order == block_order::descending)
      for (std::int64_t block = range.end - 1; block >= range.begin; --block) take(block);
    const bool in_two_runs = rules_.order == block_order::partial_first && plan_.second_form;
    for (bool whole : {false, true})
      for (std::int64_t block = range.begin; rules_.order != block_order::descending && block < range.end; ++block)
        if (in_two_runs ? uses_second_form(plan_, problem_, rows.first, block) == whole : !whole) take(block);
    for (std::size_t i = 0; i < lse.size(); ++i) lse[i] = finish(i, sink);
  }

  /// Row i is complete. @returns its lse
  template <class Sink>
  number finish(std::size_t i, Sink&& sink) {
    if (softmax_[i].empty()) {  // No block at all: O = +0, and the lse of an empty sum. Between split parts it is always −inf.
      sum_[i] = f32_code::zero();
      return f32_code::infinity(!(rules_.empty == empty_sum::one_plus_infinity && plan_.splits == 1));
    }
    const softmax_finished_of<number> finished = softmax_[i].finish(sink);
    sum_[i] = finished.divisor;
    if (rules_.output == output_form::divide_then_round) {
      const std::span<number> o = output_row(std::int64_t(i));
      if (rules_.inverse == inverse_form::division) std::transform(o.begin(), o.end(), o.begin(), [&](number x) { return Scalars::div(x, finished.divisor); });
      else Scalars::mul(o, finished.inverse_sum, o);
    }
    return finished.lse;
  }

  template <class Panels, class Sink>
  void take_block(Panels const& panels, row_group rows, std::int64_t block, bool in_masked, Sink&& sink) {
    const std::int64_t first_column = block * plan_.tile.key_columns, width = plan_.tile.key_columns;
    const std::int64_t columns = std::min<std::int64_t>(width, problem_.keys - first_column);
    const bool first = softmax_[0].empty(), masked = in_masked && plan_.mask != mask_alignment::none;
    const bool always = rules_.guard == empty_guard::always, guard_weights = always || rules_.guard == empty_guard::weights_always || (rules_.guard == empty_guard::first_and_causal && (first || masked));
    const bool guard_rescale = always || (rules_.guard != empty_guard::never && masked);
    const exponent_form form = uses_second_form(plan_, problem_, rows.first, block) ? rules_.unmasked_exponent : rules_.exponent;

    const matrix_rows<number> s(scores_.data(), rows.count, columns, width);  // S[rows × block], then p
    take_scores(panels, rows, first_column, s);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const number rescale = softmax_[std::size_t(i)].take_block(s.row(i), first_column, form, guard_weights, guard_rescale, sink);
      cast(s.row(i), std::span(weights_).subspan(std::size_t(i * width), std::size_t(columns)));
      if (!first) Scalars::mul(output_row(i), rescale, output_row(i));
    }
    output_block_of<number> event{first_column, {}, {}};
    if constexpr (is_traced<Sink>) event.rescaled = output_;
    product_.accumulate(matrix_rows<Operand const>(weights_.data(), rows.count, columns, width), panels.values, first_column, 0,
                        matrix_rows<number>(output_.data(), rows.count, problem_.head_dim, problem_.head_dim));
    if constexpr (is_traced<Sink>) {
      event.accumulated = output_;
      sink(event);
    }
  }

  /// S of a block, −inf where masked.
  template <class Panels>
  void take_scores(Panels const& panels, row_group rows, std::int64_t first_column, matrix_rows<number> s) {
    if (known_scores_.empty()) multiply_by_keys(panels, rows, first_column, s);
    else std::copy_n(known_scores_.begin() + first_column, s.columns, s.data);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const auto visible = std::int64_t(visible_keys(plan_.mask, std::size_t(rows.first + i), std::size_t(problem_.queries), std::size_t(problem_.keys)));
      std::ranges::fill(s.row(i).subspan(std::size_t(std::clamp<std::int64_t>(visible - first_column, 0, s.columns))), f32_code::infinity(true));
    }
  }

  /// Q Kᵀ of a block. Numbers that are not plain codes come with their scores.
  template <class Panels>
  void multiply_by_keys(Panels const& panels, row_group rows, std::int64_t first_column, matrix_rows<number> s) {
    if constexpr (std::same_as<number, f32_code>) {
      const row_strides strides = problem_.query_strides();
      for (std::int64_t i = 0; i < s.rows; ++i) std::ranges::fill(s.row(i), f32_code::zero());
      product_.accumulate(matrix_rows<bf16_code const>(problem_.q.data() + strides.offset(rows.batch, rows.head, rows.first), rows.count, problem_.head_dim, strides.row), panels.keys, 0,
                          first_column, s);
    }
  }

  /// P[block] as P·V takes it.
  void cast(std::span<number const> p, std::span<Operand> out) const {
    if (std::same_as<Operand, number> || rules_.weight_cast == rounding::nearest_even) return product_.operands(p, out);
    if constexpr (std::same_as<Operand, narrow>) std::transform(p.begin(), p.end(), out.begin(), [this](number x) { return convert<format::bf16>(x, rules_.weight_cast); });
  }

  /// BF16(O-bar) / sum.
  static void divide_rounded(std::span<number> o, number sum) {
    std::transform(o.begin(), o.end(), o.begin(), [sum](number x) { return sum.is_zero() ? f32_code::zero() : Scalars::div(widen(Scalars::to_bf16(x)), sum); });
  }

  /// Every part, then their sum weighted by exp(lse − joint lse); leaves it in output_.
  template <class Panels, class Sink>
  void join_parts(Panels const& panels, row_group rows, std::span<number> lse, Sink&& sink) {
    const auto parts = std::size_t(plan_.splits), count = lse.size();
    std::vector<number> lses(parts * count), outputs;  // [parts × count], [parts × count × d]
    for (std::size_t part = 0; part < parts; ++part) {
      run_part(panels, rows, std::int64_t(part), std::span(lses).subspan(part * count, count), sink);
      outputs.insert(outputs.end(), output_.begin(), output_.end());
    }
    for (number& x : lses)
      if (x == f32_code::infinity()) x = f32_code::infinity(true);  // an empty sum, in a part
    std::fill(output_.begin(), output_.end(), f32_code::zero());
    for (std::size_t i = 0; i < count; ++i) {
      lse[i] = joint_lse(lses, i, count);
      for (std::size_t part = 0; part < parts; ++part) {
        const number part_lse = lses[part * count + i], weight = exponential(Scalars::add(part_lse, lse[i].negated()));
        const auto o = std::span<number const>(outputs).subspan((part * count + i) * d_, d_);
        Scalars::fma(o, weight, output_row(std::int64_t(i)), output_row(std::int64_t(i)));
        if constexpr (is_traced<Sink>) sink(part_joined_of<number>{part_lse, weight, {o.begin(), o.end()}});
      }
    }
  }

  /// The parts sit on the next power of two of lanes, missing ones +0, and are added by halving that number.
  /// @param lses  [parts × count]: of row i the elements i, i + count, ...
  /// @source flash-attention 0251105a csrc/flash_attn/src/flash_fwd_kernel.h, combine_attn_seqk_parallel
  number joint_lse(std::span<number const> lses, std::size_t i, std::size_t count) const {
    const std::size_t parts = lses.size() / count;
    number largest = f32_code::infinity(true);
    for (std::size_t part = 0; part < parts; ++part) largest = Scalars::max(largest, lses[part * count + i]);
    if (largest == f32_code::infinity(true)) largest = f32_code::zero();
    std::vector<number> lanes(std::bit_ceil(parts), f32_code::zero());
    for (std::size_t part = 0; part < parts; ++part) lanes[part] = exponential(Scalars::add(lses[part * count + i], largest.negated()));
    for (std::size_t half = lanes.size() / 2; half != 0; half /= 2)
      for (std::size_t j = 0; j < half; ++j) lanes[j] = Scalars::add(lanes[j], lanes[j + half]);
    const number sum = lanes[0];
    return sum.is_zero() || sum.is_nan() ? f32_code::infinity() : Scalars::add(logarithm(sum), largest);
  }

  /// expf and logf as the build has them: CUDA's own, or with fast math EX2(x·log2 e) and LG2·ln 2.
  number exponential(number x) const {
    if (rules_.scalars == subnormals::kept) return cuda_expf(*plan_.tables, x);
    return ex2(*plan_.tables, Scalars::mul(x, f32_log2_e));
  }
  number logarithm(number x) const {
    if (rules_.scalars == subnormals::kept) return cuda_logf(x);
    return Scalars::mul(lg2(*plan_.tables, x), f32_code::from_bits(0x3f317218));
  }

  call_plan const& plan_;
  attention_problem const& problem_;
  forward_rules const& rules_;
  row_product<Scalars, Operand> product_;
  std::size_t columns_, d_;
  std::vector<online_softmax<Scalars>> softmax_;  // one a row
  std::vector<number> scores_;                  // [rows × columns]
  std::vector<Operand> weights_;                  // [rows × columns]
  std::vector<number> output_;                  // [rows × d]
  std::vector<number> sum_;                     // [rows]
  std::span<number const> known_scores_;
};

}  // namespace stickybit::detail
