#include <algorithm>

#include "faulty_kernel.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::testing {
namespace {

constexpr f32_code one = f32_code::from_bits(0x3f800000), log2_e = f32_code::from_bits(0x3fb8aa3b), minus_infinity = f32_code::infinity(true);
bf16_code narrow(f32_code x, rounding mode = rounding::nearest_even) { return convert<format::bf16>(x, mode); }
f32_code mul(f32_code a, f32_code b) { return host::mul_ftz(a, b); }
f32_code add(f32_code a, f32_code b) { return host::add_ftz(a, b); }
f32_code fma(f32_code a, f32_code b, f32_code c) { return host::fma_ftz(a, b, c); }

template <class T>
using matrix = std::vector<std::vector<T>>;

/// The backward pass of one call, head by head, S, P and dS whole.
class pass {
 public:
  pass(kernel_form const& form, attention_problem const& p, std::vector<f32_code> const& o_f32, std::int64_t calls, kernel_results& r)
      : form_(form), p_(p), o_f32_(o_f32), calls_(calls), r_(r), d_(p.head_dim), scale_(code_of(float(p.softmax_scale))),
        scale_log2_(code_of(float(double(float(p.softmax_scale)) * 0x1.71547652b82fep+0))), product_(unit_named("sm90.wgmma.bf16.f32"), engine::fast) {}

  void run() {
    r_.dq.assign(p_.q.size(), bf16_code::zero());
    r_.dk.assign(p_.k.size(), bf16_code::zero());
    r_.dv = r_.dk;
    for (std::int64_t b = 0; b < p_.batch; ++b)
      for (std::int64_t kh = 0; kh < p_.key_heads; ++kh) key_head(b, kh);
    if (has(defect::b_swapped)) std::swap(r_.dk, r_.dv);
  }

 private:
  [[nodiscard]] bool has(defect d) const { return form_.defects.contains(d); }
  [[nodiscard]] std::size_t query(std::int64_t b, std::int64_t h, std::int64_t i) const { return std::size_t(p_.query_strides().offset(b, h, i)); }
  [[nodiscard]] std::size_t key(std::int64_t b, std::int64_t kh, std::int64_t j) const { return std::size_t(p_.key_strides().offset(b, kh, j)); }
  [[nodiscard]] bool causal() const { return p_.causal && p_.queries > 1; }

  [[nodiscard]] std::int64_t visible(std::int64_t i) const {
    if (!causal() || has(defect::b_no_mask)) return p_.keys;
    return std::clamp<std::int64_t>(i + 1 + p_.keys - p_.queries + has(defect::b_mask_more) - has(defect::b_mask_fewer), 0, p_.keys);
  }

  static std::vector<bf16_code> gather(std::vector<bf16_code> const& from, std::int64_t rows, std::int64_t d, auto at) {
    std::vector<bf16_code> to;
    for (std::int64_t i = 0; i < rows; ++i) to.insert(to.end(), from.begin() + std::ptrdiff_t(at(i)), from.begin() + std::ptrdiff_t(at(i)) + d);
    return to;
  }

  void key_head(std::int64_t b, std::int64_t kh) {
    const std::int64_t group = p_.heads / p_.key_heads;
    const std::size_t size = std::size_t(p_.keys * d_);
    std::vector<f32_code> dk(size, f32_code::zero()), dv = dk;
    for (std::int64_t g = 0; g < group; ++g) {
      std::vector<f32_code> one_dk(size, f32_code::zero()), one_dv = one_dk;
      head(b, kh * group + g, kh, one_dk, one_dv);
      for (f32_code& x : one_dk) {
        if (!has(defect::b_scale_in_ds)) x = mul(x, scale_);
        if (has(defect::b_dk_scaled_twice)) x = mul(x, scale_);
      }
      for (std::size_t i = 0; i < size; ++i) {
        const auto take = [&](f32_code& sum, f32_code x) {
          if (group == 1) sum = x;
          else if (has(defect::b_group_last)) sum = g == group - 1 ? x : sum;
          else sum = host::add(sum, has(defect::b_group_bf16) ? widen(narrow(x)) : x);
        };
        take(dk[i], one_dk[i]);
        take(dv[i], one_dv[i]);
      }
    }
    for (std::int64_t j = 0; j < p_.keys; ++j)
      for (std::int64_t c = 0; c < d_; ++c) {
        const auto finish = [&](f32_code x) { return narrow(group > 1 && !has(defect::b_group_last) && !has(defect::b_group_bf16) ? mul(x, one) : x); };
        r_.dk[key(b, kh, j) + std::size_t(c)] = finish(dk[std::size_t(j * d_ + c)]);
        r_.dv[key(b, kh, j) + std::size_t(c)] = finish(dv[std::size_t(j * d_ + c)]);
      }
  }

  f32_code delta(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (has(defect::b_delta_none)) return f32_code::zero();
    if (has(defect::b_delta_neighbour) && i % 32 == 31) --i;
    const std::size_t at = query(b, h, i), from = has(defect::b_delta_other_head) && p_.heads > 1 ? query(b, h ^ 1, i) : at;
    const std::int64_t run = has(defect::b_delta_serial) ? d_ : 8, columns = has(defect::b_delta_columns_lost) ? d_ - 8 : d_;
    std::vector<f32_code> lanes(std::size_t(d_ / run), f32_code::zero());
    for (std::int64_t lane = 0; lane < d_ / run; ++lane)
      for (std::int64_t c = lane * run; c < std::min((lane + 1) * run, columns); ++c) {
        const f32_code x = widen(p_.d_o[at + std::size_t(c)]), o = has(defect::b_delta_fp32) ? o_f32_[from + std::size_t(c)] : widen(r_.o[from + std::size_t(c)]);
        f32_code& sum = lanes[std::size_t(lane)];
        if (c == lane * run) continue;
        if (c == lane * run + 1) {
          const f32_code x0 = widen(p_.d_o[at + std::size_t(c - 1)]), o0 = has(defect::b_delta_fp32) ? o_f32_[from + std::size_t(c - 1)] : widen(r_.o[from + std::size_t(c - 1)]);
          sum = fma(x0, o0, mul(x, o));
        } else {
          sum = fma(x, o, sum);
        }
      }
    for (std::size_t half = lanes.size() / 2; half != 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) lanes[l] = add(lanes[l], lanes[l + half]);
    return has(defect::b_delta_scaled) ? mul(lanes[0], scale_) : lanes[0];
  }

  f32_code lse_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (has(defect::b_lse_of_tile) && i % 64 == 63) i -= 1;
    f32_code lse = r_.lse[std::size_t((b * p_.heads + h) * p_.queries + i)];
    if (has(defect::b_lse_bf16)) lse = widen(narrow(lse));
    return lse == minus_infinity ? f32_code::zero() : lse;
  }

  f32_code weight(f32_code s, f32_code lse) const {
    if (has(defect::b_score_bf16)) s = widen(narrow(s));
    const f32_code lse2 = mul(lse, log2_e).negated();
    return ex2(*sm90().special_functions, has(defect::b_weight_not_fused) ? add(mul(s, scale_log2_), lse2) : fma(s, scale_log2_, lse2));
  }

  f32_code score_gradient(f32_code p, f32_code dp, f32_code delta) const {
    const f32_code w = has(defect::b_ds_from_bf16) ? widen(narrow(p)) : p;
    f32_code ds;
    if (has(defect::b_ds_fused)) ds = fma(w, dp, mul(w, delta).negated());
    else if (has(defect::b_ds_two_products)) ds = add(mul(w, dp), mul(w, delta).negated());
    else ds = mul(w, add(dp, delta.negated()));
    return has(defect::b_scale_in_ds) ? mul(ds, scale_) : ds;
  }

  void head(std::int64_t b, std::int64_t h, std::int64_t kh, std::vector<f32_code>& dk, std::vector<f32_code>& dv) {
    const auto rows_of = [&](std::vector<bf16_code> const& m, std::int64_t head) { return gather(m, p_.queries, d_, [&](auto i) { return query(b, head, i); }); };
    const auto keys_of = [&](std::vector<bf16_code> const& m) { return gather(m, p_.keys, d_, [&](auto j) { return key(b, kh, j); }); };
    const std::vector<bf16_code> q = rows_of(p_.q, h), d_o = rows_of(p_.d_o, h), k = keys_of(p_.k), v = keys_of(p_.v);
    const std::vector<bf16_code> q_of_dk = has(defect::b_dk_first_q) ? rows_of(p_.q, h / (p_.heads / p_.key_heads) * (p_.heads / p_.key_heads)) : q;
    const column_panel kt(k.data(), d_, p_.keys, 1, d_), vt(v.data(), d_, p_.keys, 1, d_);
    matrix<f32_code> gradients(std::size_t(p_.queries));  // dS before its cast
    matrix<bf16_code> ds(std::size_t(p_.queries)), weights(std::size_t(p_.keys)), ds_t(std::size_t(p_.keys));
    for (std::int64_t i = 0; i < p_.queries; ++i) {
      std::vector<f32_code> s(std::size_t(p_.keys), f32_code::zero()), dp = s;
      product_.accumulate(std::span<bf16_code const>(q).subspan(std::size_t(i * d_), std::size_t(d_)), kt, 0, 0, std::span(s));
      product_.accumulate(std::span<bf16_code const>(d_o).subspan(std::size_t(i * d_), std::size_t(d_)), vt, 0, 0, std::span(dp));
      const f32_code row_delta = delta(b, h, i), lse = lse_of(b, h, i);
      for (std::int64_t j = 0; j < p_.keys; ++j) {
        const bool seen = j < visible(i), lost = has(defect::b_last_rows_lost) && p_.queries > 64 && i >= p_.queries / 64 * 64;
        const f32_code p = seen ? weight(s[std::size_t(j)], lse) : f32_code::zero();
        const bool diagonal = has(defect::b_diagonal_without_weight) && causal() && j == visible(i) - 1;
        const f32_code x = score_gradient(diagonal ? one : p, dp[std::size_t(j)], row_delta);
        const bf16_code cast = narrow(x, has(defect::b_ds_cut) ? rounding::toward_zero : has(defect::b_ds_away) ? rounding::nearest_away : rounding::nearest_even);
        gradients[std::size_t(i)].push_back(x);
        ds[std::size_t(i)].push_back(cast);
        const f32_code for_dv = has(defect::b_dv_unmasked) ? weight(s[std::size_t(j)], lse) : p;
        const bool early = has(defect::b_first_rows_lost) && p_.queries > 16 && i < 16;
        weights[std::size_t(j)].push_back(lost || early ? bf16_code::zero() : narrow(for_dv, has(defect::b_weights_cut) ? rounding::toward_zero : rounding::nearest_even));
        ds_t[std::size_t(j)].push_back(lost ? bf16_code::zero() : cast);
      }
    }
    const std::vector<bf16_code> k_of_dq = has(defect::b_key_head_modulo) ? gather(p_.k, p_.keys, d_, [&](auto j) { return key(b, h % p_.key_heads, j); }) : k;
    for (std::int64_t i = 0; i < p_.queries; ++i) finish_dq(b, h, i, k_of_dq, ds[std::size_t(i)], gradients[std::size_t(i)]);
    const column_panel q_rows(q_of_dk.data(), p_.queries, d_, d_, 1), gradient_rows(d_o.data(), p_.queries, d_, d_, 1);
    for (std::int64_t j = 0; j < p_.keys; ++j) {
      chain(weights[std::size_t(j)], gradient_rows, std::span(dv).subspan(std::size_t(j * d_), std::size_t(d_)));
      const std::span<f32_code> to = std::span(dk).subspan(std::size_t(j * d_), std::size_t(d_));
      if (!has(defect::b_ds_not_cast)) {
        chain(ds_t[std::size_t(j)], q_rows, to);
        continue;
      }
      for (std::int64_t i = 0; i < p_.queries; ++i)
        for (std::int64_t c = 0; c < d_; ++c) to[std::size_t(c)] = fma(gradients[std::size_t(i)][std::size_t(j)], widen(q[std::size_t(i * d_ + c)]), to[std::size_t(c)]);
    }
  }

  /// Over the rows, as they follow each other.
  void chain(std::vector<bf16_code> const& a, column_panel const& rows, std::span<f32_code> sum) {
    if (!has(defect::b_queries_descending)) return product_.accumulate(std::span<bf16_code const>(a), rows, 0, 0, sum);
    const std::int64_t tile = d_ == 64 ? 128 : causal() ? 64 : 80;
    for (std::int64_t m = (p_.queries - 1) / tile; m >= 0; --m)
      product_.accumulate(std::span<bf16_code const>(a).subspan(std::size_t(m * tile), std::size_t(std::min(tile, p_.queries - m * tile))), rows, m * tile, 0, sum);
  }

  void finish_dq(std::int64_t b, std::int64_t h, std::int64_t i, std::vector<bf16_code> const& k, std::vector<bf16_code> const& ds, std::vector<f32_code> const& gradients) {
    const column_panel keys(k.data(), p_.keys, d_, d_, 1);
    const std::int64_t w = has(defect::b_block_64) ? 64 : 128, blocks = (p_.keys + w - 1) / w;
    bool descending = causal() && !has(defect::b_dq_ascending);
    if (has(defect::b_atomics)) descending = calls_ % 2 == 0;
    std::vector<f32_code> sum(std::size_t(d_), f32_code::zero());
    for (std::int64_t n = 0; n < blocks; ++n) {
      const std::int64_t block = descending ? blocks - 1 - n : n, first = block * w, count = std::min(w, p_.keys - first);
      std::vector<f32_code> part(std::size_t(d_), f32_code::zero());
      if (has(defect::b_ds_not_cast)) {
        for (std::int64_t j = first; j < first + count; ++j)
          for (std::int64_t c = 0; c < d_; ++c) part[std::size_t(c)] = fma(gradients[std::size_t(j)], widen(k[std::size_t(j * d_ + c)]), part[std::size_t(c)]);
      } else {
        product_.accumulate(std::span<bf16_code const>(ds).subspan(std::size_t(first), std::size_t(count)), keys, first, 0, std::span(part));
      }
      for (std::size_t c = 0; c < sum.size(); ++c) {
        sum[c] = host::add(sum[c], part[c]);
        if (has(defect::b_first_part_twice) && blocks > 1 && block == 0) sum[c] = host::add(sum[c], part[c]);
        if (has(defect::b_dq_bf16_accumulator)) sum[c] = widen(narrow(sum[c]));
      }
    }
    for (std::size_t c = 0; c < sum.size(); ++c) {
      f32_code x = sum[c];
      if (!has(defect::b_dq_unscaled) && !has(defect::b_scale_in_ds)) x = mul(x, scale_);
      if (has(defect::b_dq_scaled_twice)) x = mul(x, scale_);
      r_.dq[query(b, h, i) + c] = narrow(x);
    }
  }

  kernel_form const& form_;
  attention_problem const& p_;
  std::vector<f32_code> const& o_f32_;
  std::int64_t calls_;
  kernel_results& r_;
  std::int64_t d_;
  f32_code scale_, scale_log2_;
  rows_times_panel product_;
};

}  // namespace

void plain_backward(kernel_form const& form, attention_problem const& p, std::vector<f32_code> const& o_f32, std::int64_t calls, kernel_results& r) { pass(form, p, o_f32, calls, r).run(); }

std::vector<known_defect> backward_defects() {
  using d = defect;
  std::vector<known_defect> all{
      {"backward: key blocks of 64", {d::b_block_64}, {"backward: key blocks of 64"}},
      {"parts of dQ ascending", {d::b_dq_ascending}, {"parts of dQ added ascending"}},
      {"blocks of queries descending", {d::b_queries_descending}, {"blocks of queries descending"}},
      {"backward: exponent not fused", {d::b_weight_not_fused}, {"EX2(rn(rn(S L) - lse2))"}},
      {"delta in one lane", {d::b_delta_serial}, {"delta in one lane"}},
      {"delta from the FP32 O", {d::b_delta_fp32}, {"delta from the FP32 O"}},
      {"delta left out", {d::b_delta_none}, {"delta is left out"}},
      {"dS fused", {d::b_ds_fused}, {"dS = fma(P, dP"}},
      {"dS of two products", {d::b_ds_two_products}, {"dS = rn(rn(P dP)"}},
      {"dS from the BF16 P", {d::b_ds_from_bf16}, {"dS from the BF16 P"}},
      {"scale in dS", {d::b_scale_in_ds}, {"the scale in dS before its cast"}},
      {"group: heads rounded first", {d::b_group_bf16}, {"each head rounded to BF16"}},
      {"group: the last head's alone", {d::b_group_last}, {"the last query head's alone"}},
      {"dK and dV swapped", {d::b_swapped}, {"dK and dV are swapped"}},
      {"dQ not scaled", {d::b_dq_unscaled}, {"dQ lacks the softmax scale"}},
      {"dQ scaled twice", {d::b_dq_scaled_twice}, {"dQ has the softmax scale twice"}},
      {"backward: mask shows one more", {d::b_mask_more}, {"backward: the mask shows one key more"}},
      {"backward: mask shows one fewer", {d::b_mask_fewer}, {"backward: the mask shows one key fewer"}},
      {"backward: no mask", {d::b_no_mask}, {"backward: no causal mask"}},
      {"P from lse in BF16", {d::b_lse_bf16}, {"lse rounded to BF16"}},
      {"delta of the row above", {d::b_delta_neighbour}, {}},
      {"delta without the last 8 columns", {d::b_delta_columns_lost}, {}},
      {"delta from another head's O", {d::b_delta_other_head}, {}},
      {"dS not cast", {d::b_ds_not_cast}, {}},
      {"dS cut", {d::b_ds_cut}, {}},
      {"backward: P cut", {d::b_weights_cut}, {}},
      {"dQ accumulated in BF16", {d::b_dq_bf16_accumulator}, {}},
      {"last rows lost in dK and dV", {d::b_last_rows_lost}, {}},
      {"dK with the first head's Q", {d::b_dk_first_q}, {}},
      {"dQ by atomics", {d::b_atomics}, {}},
      {"dK scaled twice", {d::b_dk_scaled_twice}, {}},
      {"lse of the row above", {d::b_lse_of_tile}, {}},
      {"first part of dQ twice", {d::b_first_part_twice}, {}},
      {"dV not masked", {d::b_dv_unmasked}, {}},
      {"backward: scores rounded to BF16", {d::b_score_bf16}, {}},
      {"delta times the scale", {d::b_delta_scaled}, {}},
      {"dS on the diagonal without P", {d::b_diagonal_without_weight}, {}},
      {"dV without the first 16 rows", {d::b_first_rows_lost}, {}},
      {"dQ with key head modulo", {d::b_key_head_modulo}, {}},
      {"dS: halves away from zero", {d::b_ds_away}, {}},
      {"dS cut, O cut", {d::b_ds_cut, d::output_cut}, {}},
      {"backward blocks of 64, dS fused", {d::b_block_64, d::b_ds_fused}, {"backward: key blocks of 64"}},
      {"blocks of queries descending, scale in dS", {d::b_queries_descending, d::b_scale_in_ds}, {"blocks of queries descending"}},
      {"forward blocks of 64, delta in one lane", {d::block_64, d::b_delta_serial}, {"delta in one lane"}},
      {"delta left out, dS cut", {d::b_delta_none, d::b_ds_cut}, {}},
      {"dQ by atomics, delta of the row above", {d::b_atomics, d::b_delta_neighbour}, {}},
      {"backward mask shows one more, dQ scaled twice", {d::b_mask_more, d::b_dq_scaled_twice}, {}},
  };
  for (known_defect& x : all) {
    x.backward = true;
    x.deterministic = std::find(x.defects.begin(), x.defects.end(), d::b_atomics) == x.defects.end();
  }
  return all;
}

}  // namespace stickybit::testing
