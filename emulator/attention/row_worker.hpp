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

// The law of a forward kernel for one row. Rows never meet, so only the key blocks' width and order decide the bits; the tile of
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

/// One thread's worker, with its scratch memory. Operand: what P·V takes P as, bf16_code or f32_code.
template <class Scalars, class Operand = bf16_code>
class row_worker {
 public:
  row_worker(call_plan const& plan, attention_problem const& p, engine how) : plan_(plan), problem_(p), rules_(*plan.rules), product_(*plan.unit, how) {
    scores_.resize(std::size_t(plan.tile.key_columns));
    weights_.resize(std::size_t(plan.tile.key_columns));
    output_.resize(std::size_t(p.head_dim));
  }

  /// O[d] before its cast, of the last row run.
  [[nodiscard]] std::span<f32_code const> output() const noexcept { return output_; }

  /// O[d] to `o`; lse returned.
  /// @param known_scores  S of the row, where the caller has it already: [keys], or empty
  template <class Sink>
  f32_code run(key_value_panels const& panels, std::int64_t b, std::int64_t head, std::int64_t row, bf16_code* o, Sink&& sink,
               std::span<f32_code const> known_scores = {}) {
    known_scores_ = known_scores;
    const auto q = std::span(problem_.q).subspan(std::size_t(problem_.query_strides().offset(b, head, row)), std::size_t(problem_.head_dim));
    f32_code lse;
    if (plan_.splits == 1) {
      lse = run_part(panels, q, head, row, 0, sink);
      if (rules_.output == output_form::round_then_divide) {
        divide_rounded(o);
        return lse;
      }
    } else {
      lse = join_parts(panels, q, head, row, sink);
    }
    if constexpr (is_traced<Sink>) sink(output_ready{output_, lse});
    for (std::size_t j = 0; j < output_.size(); ++j) o[j] = Scalars::to_bf16(output_[j]);
    return lse;
  }

 private:
  /// One part of the keys: output_ becomes O of that part in FP32, divided by its sum (unless O is rounded first).
  template <class Sink>
  f32_code run_part(key_value_panels const& panels, std::span<bf16_code const> q, std::int64_t head, std::int64_t row, std::int64_t part, Sink&& sink) {
    const block_range range = blocks_of(plan_, problem_, head, row, part);
    online_softmax<Scalars> softmax(*plan_.tables, rules_, plan_.scales);
    std::fill(output_.begin(), output_.end(), f32_code::zero());
    const auto take = [&](std::int64_t block) { take_block(panels, q, row, block, softmax.empty(), block >= range.masked_from, softmax, sink); };
    if (rules_.order == block_order::descending)
      for (std::int64_t block = range.end - 1; block >= range.begin; --block) take(block);
    const bool in_two_runs = rules_.order == block_order::partial_first && plan_.second_form;
    for (bool whole : {false, true})
      for (std::int64_t block = range.begin; rules_.order != block_order::descending && block < range.end; ++block)
        if (in_two_runs ? uses_second_form(plan_, problem_, row, block) == whole : !whole) take(block);
    if (softmax.empty()) return empty_part();
    const softmax_finished finished = softmax.finish(sink);
    sum_ = finished.divisor;
    if (rules_.output == output_form::divide_then_round)
      for (f32_code& x : output_) x = rules_.inverse == inverse_form::division ? Scalars::div(x, finished.divisor) : Scalars::mul(x, finished.inverse_sum);
    return finished.lse;
  }

  /// No block at all: O = +0, and the lse of an empty sum. Between split parts it is always −inf.
  f32_code empty_part() {
    sum_ = f32_code::zero();
    return f32_code::infinity(!(rules_.empty == empty_sum::one_plus_infinity && plan_.splits == 1));
  }

  template <class Sink>
  void take_block(key_value_panels const& panels, std::span<bf16_code const> q, std::int64_t row, std::int64_t block, bool first, bool in_masked,
                  online_softmax<Scalars>& softmax, Sink&& sink) {
    const std::int64_t first_column = block * plan_.tile.key_columns;
    const auto columns = std::size_t(std::min<std::int64_t>(plan_.tile.key_columns, problem_.keys - first_column));
    const auto scores = std::span(scores_).first(columns);  // S[block]
    if (known_scores_.empty()) {
      std::fill(scores.begin(), scores.end(), f32_code::zero());
      product_.accumulate(q, panels.keys, 0, first_column, scores);
    } else {
      std::copy_n(known_scores_.begin() + first_column, columns, scores.begin());
    }
    const auto visible = std::int64_t(visible_keys(plan_.mask, std::size_t(row), std::size_t(problem_.queries), std::size_t(problem_.keys)));
    for (std::int64_t j = std::max<std::int64_t>(0, visible - first_column); j < std::int64_t(columns); ++j) scores[std::size_t(j)] = f32_code::infinity(true);

    const bool masked = in_masked && plan_.mask != mask_alignment::none;
    const bool guard_weights = rules_.guard == empty_guard::weights_always || (rules_.guard == empty_guard::first_and_causal && (first || masked));
    const bool guard_rescale = rules_.guard != empty_guard::never && masked;
    const exponent_form form = uses_second_form(plan_, problem_, row, block) ? rules_.unmasked_exponent : rules_.exponent;
    const f32_code rescale = softmax.take_block(scores, first_column, form, guard_weights, guard_rescale, sink);
    std::transform(scores.begin(), scores.end(), weights_.begin(), [this](f32_code p) { return cast(p); });  // P[block]
    if (!first)
      for (f32_code& x : output_) x = Scalars::mul(x, rescale);
    output_block event{first_column, {}, {}};
    if constexpr (is_traced<Sink>) event.rescaled = output_;
    product_.accumulate(std::span<Operand const>(weights_).first(columns), panels.values, first_column, 0, output_);
    if constexpr (is_traced<Sink>) {
      event.accumulated = output_;
      sink(event);
    }
  }

  Operand cast(f32_code p) const {
    if constexpr (std::same_as<Operand, f32_code>) return p;
    else return rules_.weight_cast == rounding::nearest_even ? Scalars::to_bf16(p) : convert<format::bf16>(p, rules_.weight_cast);
  }

  /// O = BF16(BF16(O-bar) / sum).
  void divide_rounded(bf16_code* o) {
    for (std::size_t j = 0; j < output_.size(); ++j) {
      const bf16_code rounded_first = Scalars::to_bf16(output_[j]);
      output_[j] = sum_.is_zero() ? f32_code::zero() : Scalars::div(widen(rounded_first), sum_);
      o[j] = Scalars::to_bf16(output_[j]);
    }
  }

  /// Every part, then their sum weighted by exp(lse − joint lse); leaves it in output_.
  /// The parts sit on the next power of two of lanes, missing ones +0, and are added by halving that number.
  /// @source flash-attention 0251105a csrc/flash_attn/src/flash_fwd_kernel.h, combine_attn_seqk_parallel
  template <class Sink>
  f32_code join_parts(key_value_panels const& panels, std::span<bf16_code const> q, std::int64_t head, std::int64_t row, Sink&& sink) {
    const auto parts = std::size_t(plan_.splits);
    std::vector<f32_code> lses(parts), outputs(parts * output_.size());
    f32_code largest = f32_code::infinity(true);
    for (std::size_t i = 0; i < parts; ++i) {
      f32_code lse = run_part(panels, q, head, row, std::int64_t(i), sink);
      if (lse == f32_code::infinity()) lse = f32_code::infinity(true);  // an empty sum, in a part
      lses[i] = lse;
      largest = Scalars::max(largest, lse);
      std::copy(output_.begin(), output_.end(), outputs.begin() + std::ptrdiff_t(i * output_.size()));
    }
    if (largest == f32_code::infinity(true)) largest = f32_code::zero();

    std::vector<f32_code> lanes(std::bit_ceil(parts), f32_code::zero());
    for (std::size_t i = 0; i < parts; ++i) lanes[i] = exponential(Scalars::add(lses[i], largest.negated()));
    for (std::size_t half = lanes.size() / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lanes[i] = Scalars::add(lanes[i], lanes[i + half]);
    const f32_code sum = lanes[0];
    const f32_code lse = sum.is_zero() || sum.is_nan() ? f32_code::infinity() : Scalars::add(logarithm(sum), largest);

    std::fill(output_.begin(), output_.end(), f32_code::zero());
    for (std::size_t i = 0; i < parts; ++i) {
      const f32_code weight = exponential(Scalars::add(lses[i], lse.negated()));
      const auto part = std::span(outputs).subspan(i * output_.size(), output_.size());
      for (std::size_t j = 0; j < output_.size(); ++j) output_[j] = Scalars::fma(weight, part[j], output_[j]);
      if constexpr (is_traced<Sink>) sink(part_joined{lses[i], weight, {part.begin(), part.end()}});
    }
    return lse;
  }

  /// expf and logf as the build has them: CUDA's own, or with fast math EX2(x·log2 e) and LG2·ln 2.
  f32_code exponential(f32_code x) const {
    if (rules_.scalars == subnormals::kept) return cuda_expf(*plan_.tables, x);
    return ex2(*plan_.tables, Scalars::mul(x, f32_log2_e));
  }
  f32_code logarithm(f32_code x) const {
    if (rules_.scalars == subnormals::kept) return cuda_logf(x);
    return Scalars::mul(lg2(*plan_.tables, x), f32_code::from_bits(0x3f317218));
  }

  call_plan const& plan_;
  attention_problem const& problem_;
  forward_rules const& rules_;
  row_product<Scalars, Operand> product_;
  std::vector<f32_code> scores_;
  std::vector<Operand> weights_;
  std::vector<f32_code> output_;
  f32_code sum_;
  std::span<f32_code const> known_scores_;
};

}  // namespace stickybit::detail
