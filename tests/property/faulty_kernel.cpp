#include "faulty_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "stickybit/attention/forward.hpp"
#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/exact/rows.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::testing {
namespace {

constexpr f32_code one = f32_code::from_bits(0x3f800000), ln2 = f32_code::from_bits(0x3f317218), minus_infinity = f32_code::infinity(true);
f32_code f32_of(double x) { return code_of(float(x)); }
bf16_code narrow(f32_code x, rounding mode = rounding::nearest_even) { return convert<format::bf16>(x, mode); }
f32_code rounded_to_11_bits(f32_code x) {
  const std::uint32_t bits = x.to_bits();
  return x.is_finite() ? f32_code::from_bits((bits + 0xfff + (bits >> 13 & 1)) & ~std::uint32_t{0x1fff}) : x;
}

/// One row's numbers between blocks.
struct row_state {
  f32_code largest = minus_infinity;
  std::array<f32_code, 4> lanes{};
  f32_code all = f32_code::zero();  // never rescaled
  std::vector<f32_code> o;
  bool seen = false;
};

class kernel final : public kernel_under_test {
 public:
  explicit kernel(kernel_form form) : form_(std::move(form)), tables_(*sm90().special_functions) {}
  [[nodiscard]] std::string name() const override { return form_.name; }
  [[nodiscard]] bool has_backward() const override { return !form_.as_cudnn; }

  [[nodiscard]] kernel_results run(attention_problem const& p, bool gradients) override {
    if (p.head_dim != 64 && p.head_dim != 128) throw unsupported_call("head dimension");
    if (form_.as_cudnn && p.queries == 1) throw unsupported_call("one query");
    ++calls_;
    kernel_results r;
    r.o.assign(p.q.size(), bf16_code::zero());
    o_f32_.assign(p.q.size(), f32_code::zero());
    r.lse.assign(std::size_t(p.batch * p.heads * p.queries), minus_infinity);
    for (std::int64_t n = 0; n < p.batch * p.heads; ++n) {
      const std::int64_t at = form_.heads_descending ? p.batch * p.heads - 1 - n : n;
      head(p, at / p.heads, at % p.heads, r);
    }
    if (gradients && has_backward()) plain_backward(form_, p, o_f32_, calls_, r);
    return r;
  }

 private:
  [[nodiscard]] bool has(defect d) const { return form_.defects.contains(d); }

  [[nodiscard]] f32_code mul(f32_code a, f32_code b) const { return has(defect::subnormals_kept) ? host::mul(a, b) : host::mul_ftz(a, b); }
  [[nodiscard]] f32_code add(f32_code a, f32_code b) const { return has(defect::subnormals_kept) ? host::add(a, b) : host::add_ftz(a, b); }
  [[nodiscard]] f32_code fma(f32_code a, f32_code b, f32_code c) const { return has(defect::subnormals_kept) ? host::fma(a, b, c) : host::fma_ftz(a, b, c); }
  [[nodiscard]] f32_code exp2(f32_code x) const {
    if (has(defect::argument_clamped) && to_double(x) < -20) x = f32_of(-20);
    const f32_code p = has(defect::subnormals_kept) ? exp2_keeping_subnormals(tables_, x) : ex2(tables_, x);
    return has(defect::exponential_low) ? f32_code::from_bits(p.to_bits() & 0xfffff000) : p;
  }

  [[nodiscard]] std::int64_t width(attention_problem const& p, bool causal) const {
    if (has(defect::block_64)) return 64;
    if (has(defect::block_96)) return 96;
    if (form_.as_cudnn) return 128;
    return p.head_dim == 64 ? causal ? 128 : 192 : causal ? 128 : 176;
  }

  [[nodiscard]] std::int64_t visible(attention_problem const& p, bool causal, std::int64_t i) const {
    if (!causal || has(defect::no_mask)) return p.keys;
    const bool first = form_.as_cudnn != has(defect::mask_top_left);
    std::int64_t n = first ? i + 1 : i + 1 + p.keys - p.queries;
    n += has(defect::mask_one_more) - has(defect::mask_one_fewer);
    return std::clamp<std::int64_t>(n, 0, p.keys);
  }

  [[nodiscard]] double scale_of(attention_problem const& p, std::int64_t head) const {
    double s = p.softmax_scale;
    if (has(defect::scale_ignored)) s = 1;
    if (has(defect::scale_twice)) s *= s;
    if (has(defect::scale_base_2)) s /= 0x1.71547652b82fep+0;
    if (has(defect::scale_bf16)) s = to_double(narrow(f32_of(s)));
    if (has(defect::odd_heads_other_scale) && head % 2 == 1) s *= 0.7071;
    return s;
  }

  void head(attention_problem const& p, std::int64_t b, std::int64_t h, kernel_results& r) {
    const std::int64_t kh = has(defect::key_head_modulo) ? h % p.key_heads : p.key_head_of(h), d = p.head_dim;
    const bool causal = p.causal && (form_.as_cudnn || p.queries > 1);
    const std::int64_t bv = has(defect::batch_values_of_first) ? 0 : b, w = width(p, causal && !has(defect::no_mask));
    // Copies of the head, padded to whole blocks.
    const std::int64_t padded = (p.keys + w - 1) / w * w;
    std::vector<bf16_code> k(std::size_t(padded * d)), v(k.size());
    for (std::int64_t j = 0; j < p.keys; ++j)
      for (std::int64_t c = 0; c < d; ++c) {
        const std::int64_t from = has(defect::values_shifted_in_second_block) && j >= w && j + 1 < p.keys ? j + 1 : j;
        k[std::size_t(j * d + c)] = has(defect::last_column_ignored) && c == d - 1 ? bf16_code::zero() : p.k[std::size_t(p.key_strides().offset(b, kh, j) + c)];
        v[std::size_t(j * d + c)] = p.v[std::size_t(p.key_strides().offset(bv, kh, from) + c)];
      }
    std::int64_t keys = p.keys;
    if (has(defect::partial_block_lost) && keys % 64 != 0 && keys > 64 && !p.causal) keys = keys / 64 * 64;
    if (has(defect::padding_counts) && !p.causal) keys = (keys + 15) / 16 * 16;
    if (has(defect::last_key_lost) && keys > 1) --keys;
    if (has(defect::keys_above_256_lost)) keys = std::min<std::int64_t>(keys, 256);
    if (has(defect::inputs_flushed))
      for (bf16_code& x : v)
        if (x.magnitude() < 0x80) x = bf16_code::zero();
    keys = std::min(keys, padded);
    const std::int64_t held = form_.padded || has(defect::padding_counts) ? padded : p.keys;
    const column_panel kt(k.data(), d, held, 1, d), values(v.data(), held, d, d, 1);
    const bool by_k8 = has(defect::unit_k8);
    rows_times_panel product(unit_named(by_k8 ? "sm90.mma.bf16k8.f32" : "sm90.wgmma.bf16.f32"), engine::fast);
    if (has(defect::values_tf32) || has(defect::all_tf32)) {
      wide_k_ = widened(k);
      wide_v_ = widened(v);
      panel_k_.emplace(format::tf32, code_array(wide_k_), d, held, 1, d);
      panel_v_.emplace(format::tf32, code_array(wide_v_), held, d, d, 1);
    }
    f32_code before = minus_infinity;
    for (std::int64_t n = 0; n < p.queries; ++n) {
      const std::int64_t i = form_.rows_descending ? p.queries - 1 - n : n;
      std::int64_t seen = std::min(visible(p, causal, i), keys);
      if (has(defect::padding_counts) && !p.causal) seen = keys;
      row_state s;
      s.o.assign(std::size_t(d), f32_code::zero());
      const double scale = scale_of(p, h);
      const f32_code l = form_.as_cudnn ? mul_exact(f32_of(scale)) : f32_of(double(float(scale)) * 0x1.71547652b82fep+0);
      const std::int64_t blocks = (seen + w - 1) / w;
      const bool descending = form_.as_cudnn == has(defect::other_order);
      for (std::int64_t block = 0; block < blocks; ++block) {
        if (has(defect::long_rows_lose_a_block) && blocks > 2 && block == 1) continue;
        take_block(p, product, kt, values, b, h, i, (descending ? blocks - 1 - block : block) * w, w, held, seen, scale, l, before, s);
      }
      before = s.largest;
      finish(p, b, h, i, seen, scale, l, s, r);
    }
  }

  static std::vector<std::uint32_t> widened(std::span<bf16_code const> codes) {
    std::vector<std::uint32_t> wide(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) wide[i] = std::uint32_t(codes[i].to_bits()) << 16;
    return wide;
  }

  static f32_code mul_exact(f32_code s) { return host::mul(s, f32_code::from_bits(0x3fb8aa3b)); }

  void take_block(attention_problem const& p, rows_times_panel& product, column_panel const& kt, column_panel const& values, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t first,
                  std::int64_t w, std::int64_t held, std::int64_t seen, double scale, f32_code l, f32_code neighbour, row_state& s) {
    const std::int64_t d = p.head_dim, columns = std::min(w, held - first);
    std::vector<f32_code> x(std::size_t(columns), f32_code::zero());
    const std::span<bf16_code const> q(p.q.data() + p.query_strides().offset(b, h, i), std::size_t(d));
    if (has(defect::all_tf32)) {
      const std::vector<std::uint32_t> wide = widened(q);
      rows_times_panel(unit_named("sm90.wgmma.tf32.f32"), engine::fast).accumulate(raw_rows{code_array(wide), 1, d, d}, *panel_k_, 0, first, matrix_rows<f32_code>(x.data(), 1, columns, columns));
    } else {
      product.accumulate(q, kt, 0, first, std::span(x));
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      f32_code& score = x[std::size_t(j)];
      if (has(defect::score_bf16)) score = widen(narrow(score));
      if (first + j >= seen) score = has(defect::mask_by_sentinel) && p.causal && first + j < p.keys ? f32_of(-1e4 / scale) : minus_infinity;
      if (has(defect::first_key_lost) && first + j == 0 && seen > 1) score = minus_infinity;
      if (form_.as_cudnn || has(defect::exponent_scaled)) score = mul(score, l);
    }
    const bool scaled = form_.as_cudnn || has(defect::exponent_scaled);
    const f32_code old = s.largest;
    f32_code m = s.seen ? old : has(defect::maximum_from_zero) ? f32_code::zero() : has(defect::maximum_from_sentinel) ? f32_of(-20) : minus_infinity;
    if (!(has(defect::maximum_of_first_block) && s.seen))
      for (f32_code score : x) m = max(m, score, subnormals::flushed);
    if (has(defect::neighbour_maximum) && i % 64 == 63 && neighbour.is_finite()) m = max(m, neighbour, subnormals::flushed);
    s.largest = m;
    const f32_code safe = m == minus_infinity ? f32_code::zero() : m, safe_old = old;
    f32_code factor = one;
    if (s.seen) {
      if (scaled) factor = exp2(add(safe_old, safe.negated()));
      else if (has(defect::rescale_fused)) factor = exp2(fma(safe_old, l, mul(safe, l).negated()));
      else factor = exp2(mul(add(safe_old, safe.negated()), l));
    }
    const f32_code ml = scaled ? safe : mul(safe, l);
    std::vector<bf16_code> cast(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      f32_code a;
      if (scaled) a = add(x[j], ml.negated());
      else if (has(defect::exponent_not_fused)) a = add(mul(x[j], l), ml.negated());
      else if (has(defect::exponent_subtract_first)) a = mul(add(x[j], safe.negated()), l);
      else a = fma(x[j], l, ml.negated());
      f32_code e = exp2(a);
      if (has(defect::ties_counted_once) && j > 0 && e == one && x[j] == x[j - 1]) e = f32_code::zero();
      if (has(defect::second_block_weights_halved) && s.seen) e = mul(e, f32_of(0.5));
      if (has(defect::small_weights_flushed) && to_double(e) < 0x1p-14) e = f32_code::zero();
      if (has(defect::key_17_twice) && first + std::int64_t(j) == 17) e = add(e, e);
      x[j] = e;
      const f32_code wide = has(defect::weights_rounded_twice) ? rounded_to_11_bits(e) : e;
      cast[j] = narrow(wide, has(defect::weights_cut) ? rounding::toward_zero : has(defect::weights_away) ? rounding::nearest_away : rounding::nearest_even);
    }
    add_sums(x, cast, factor, s);
    if (s.seen && !has(defect::output_not_rescaled))
      for (f32_code& o : s.o) o = mul(o, factor);
    multiply(product, x, cast, values, first, d, s);
    if (has(defect::bf16_accumulator))
      for (f32_code& o : s.o) o = widen(narrow(o));
    s.seen = true;
  }

  void multiply(rows_times_panel& product, std::vector<f32_code> const& x, std::vector<bf16_code> const& cast, column_panel const& values, std::int64_t first, std::int64_t d, row_state& s) const {
    if (has(defect::weights_fp32)) {
      for (std::size_t j = 0; j < x.size(); ++j)
        for (std::int64_t c = 0; c < d; ++c) s.o[std::size_t(c)] = fma(x[j], widen(values.at(first + std::int64_t(j), c)), s.o[std::size_t(c)]);
      return;
    }
    if (has(defect::values_tf32) || has(defect::all_tf32)) {
      std::vector<std::uint32_t> p(x.size());
      for (std::size_t j = 0; j < x.size(); ++j) p[j] = x[j].to_bits() & 0xffffe000u;  // as the hardware does
      const auto count = std::int64_t(p.size());
      return rows_times_panel(unit_named("sm90.wgmma.tf32.f32"), engine::fast).accumulate(raw_rows{code_array(p), 1, count, count}, *panel_v_, first, 0, matrix_rows<f32_code>(s.o.data(), 1, d, d));
    }
    if (!form_.columns_in_halves) return product.accumulate(std::span<bf16_code const>(cast), values, first, 0, std::span(s.o));
    for (std::int64_t half : {d / 2, std::int64_t{0}}) product.accumulate(std::span<bf16_code const>(cast), values, first, half, std::span(s.o).subspan(std::size_t(half), std::size_t(d / 2)));
  }

  void add_sums(std::vector<f32_code> const& x, std::vector<bf16_code> const& cast, f32_code factor, row_state& s) const {
    if (has(defect::rescale_of_sum_twice)) factor = mul(factor, factor);
    if (has(defect::sum_not_rescaled)) factor = one;
    const bool block_first = form_.as_cudnn != has(defect::sum_block_first);
    std::array<f32_code, 4> block{};
    std::array<bool, 4> begun{};
    for (std::size_t j = 0; j < x.size(); ++j) {
      const std::size_t lane = j % 8 / 2;
      const f32_code e = has(defect::sum_of_bf16) ? widen(cast[j]) : x[j];
      s.all = add(s.all, e);
      if (begun[lane]) block[lane] = add(block[lane], e);
      else if (block_first || !s.seen) block[lane] = e;
      else block[lane] = has(defect::sum_carried_twice) ? add(mul(factor, s.lanes[lane]), e) : fma(factor, s.lanes[lane], e);
      begun[lane] = true;
    }
    for (std::size_t lane = 0; lane < 4; ++lane) {
      if (!begun[lane] && s.seen) block[lane] = block_first ? f32_code::zero() : mul(factor, s.lanes[lane]);
      s.lanes[lane] = block_first && s.seen ? fma(factor, s.lanes[lane], block[lane]) : block[lane];
    }
  }

  void finish(attention_problem const& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t seen, double scale, f32_code l, row_state& s, kernel_results& r) {
    const std::size_t row = std::size_t((b * p.heads + h) * p.queries + i);
    bf16_code* o = r.o.data() + p.query_strides().offset(b, h, i);
    if (has(defect::seventh_row_lost) && i % 64 == 6 && p.queries > 64) return;
    if (!s.seen) {
      r.lse[row] = minus_infinity;
      return;
    }
    auto t = s.lanes;
    if (has(defect::lane_three_lost) && seen % 8 != 0 && seen % 8 < 7) t[3] = f32_code::zero();
    const bool near = form_.as_cudnn != has(defect::lanes_near);
    f32_code sum = near ? add(add(t[0], t[1]), add(t[2], t[3])) : add(add(t[0], t[2]), add(t[1], t[3]));
    if (has(defect::sum_rescaled_late)) sum = s.all;
    if (has(defect::sum_epsilon)) sum = add(sum, f32_of(1e-6));
    const bool empty = !form_.as_cudnn && (sum.is_zero() || sum.is_nan());
    const f32_code inverse = empty ? f32_code::zero() : has(defect::inverse_ieee) ? host::div_ftz(one, sum) : rcp(tables_, sum);
    const rounding mode = has(defect::output_cut) ? rounding::toward_zero : has(defect::output_away) ? rounding::nearest_away : rounding::nearest_even;
    for (std::int64_t c = 0; c < p.head_dim; ++c) {
      f32_code x = s.o[std::size_t(c)];
      if (has(defect::rounded_then_divided)) x = empty ? f32_code::zero() : host::div_ftz(widen(narrow(x)), sum);
      else if (has(defect::divided)) x = empty ? f32_code::zero() : host::div_ftz(x, sum);
      else x = mul(x, inverse);
      o_f32_[std::size_t(o - r.o.data() + c)] = x;
      o[c] = narrow(x, mode);
      if (has(defect::value_sign_of_zero) && o[c].is_zero()) o[c] = bf16_code::zero(true);
    }
    if (has(defect::last_column_copied) && p.queries > 100) o[p.head_dim - 1] = o[p.head_dim - 2];
    if (has(defect::not_deterministic) && calls_ % 5 == 3 && o[0].is_finite()) o[0] = bf16_code::from_bits(std::uint16_t(o[0].to_bits() ^ 1));
    if (has(defect::last_lse_lost) && i == p.queries - 1) return void(r.lse[row] = f32_code::zero());
    if (empty) return void(r.lse[row] = minus_infinity);
    const f32_code log = has(defect::lse_in_log2) ? lg2(tables_, sum) : mul(lg2(tables_, sum), ln2);
    if (form_.as_cudnn || has(defect::exponent_scaled)) r.lse[row] = fma(s.largest, ln2, log);
    else if (has(defect::lse_by_scale)) r.lse[row] = fma(s.largest, f32_of(scale), log);
    else r.lse[row] = fma(mul(l, ln2), s.largest, log);
  }

  kernel_form form_;
  special_function_tables const& tables_;
  std::int64_t calls_ = 0;
  std::vector<f32_code> o_f32_;
  std::vector<std::uint32_t> wide_k_, wide_v_;  // of the head, where products are TF32
  std::optional<column_panel> panel_k_, panel_v_;
};

}  // namespace

std::unique_ptr<kernel_under_test> plain_kernel(kernel_form const& form) { return std::make_unique<kernel>(form); }

std::vector<known_defect> all_defects() {
  using d = defect;
  std::vector<known_defect> all{
      {"key blocks of 64", {d::block_64}, {"key blocks of 64"}},
      {"key blocks of 96", {d::block_96}, {"key blocks of 96"}},
      {"blocks ascending", {d::other_order}, {"key blocks ascending"}},
      {"exponent not fused", {d::exponent_not_fused}, {"rn(rn(S L) - rn(m L))"}},
      {"subtract first", {d::exponent_subtract_first}, {"subtract first"}},
      {"scores scaled first", {d::exponent_scaled}, {"exponent of scaled scores"}},
      {"rescale factor fused", {d::rescale_fused}, {"rescale factor fused"}},
      {"sum: product and addition apart", {d::sum_carried_twice}, {"product and addition rounded apart"}},
      {"sum: block first", {d::sum_block_first}, {"row sum of the block first, then fma"}},
      {"lanes joined the other way", {d::lanes_near}, {"(l0 + l1) + (l2 + l3)"}},
      {"sum of the BF16 weights", {d::sum_of_bf16}, {"row sum of the BF16 weights"}},
      {"P cut", {d::weights_cut}, {"P cut toward zero"}},
      {"1/sum rounded correctly", {d::inverse_ieee}, {"correctly rounded 1/sum"}},
      {"O divided", {d::divided}, {"O divided by the sum"}},
      {"O rounded, then divided", {d::rounded_then_divided}, {"O rounded to BF16 before"}},
      {"O not rescaled", {d::output_not_rescaled}, {"O is not rescaled"}},
      {"BF16 accumulator", {d::bf16_accumulator}, {"accumulated in BF16"}},
      {"P not rounded", {d::weights_fp32}, {"P is not rounded"}},
      {"mask shows one more", {d::mask_one_more}, {"one key more"}},
      {"mask shows one fewer", {d::mask_one_fewer}, {"one key fewer"}},
      {"mask at the first key", {d::mask_top_left}, {"aligned to the first"}},
      {"no mask", {d::no_mask}, {"no causal mask"}},
      {"scale ignored", {d::scale_ignored}, {"scale is ignored"}},
      {"scale twice", {d::scale_twice}, {"scale is applied twice"}},
      {"base 2 for e", {d::scale_base_2}, {"base 2 for e"}},
      {"scale in BF16", {d::scale_bf16}, {"scale is rounded to BF16"}},
      {"key head modulo", {d::key_head_modulo}, {"h mod the number"}},
      {"partial block lost", {d::partial_block_lost}, {"partial block of 64 keys is left out"}},
      {"padding counts", {d::padding_counts}, {"up to a multiple of 16, count"}},
      {"lse by the scale", {d::lse_by_scale}, {"lse = fma(m, s"}},
      {"tensor core in steps of 8", {d::unit_k8}, {"bf16k8"}},
      {"subnormals kept", {d::subnormals_kept}, {"subnormals kept"}},
      {"sum not rescaled", {d::sum_not_rescaled}, {"row sum is not rescaled"}},
      {"P V in TF32", {d::values_tf32}, {"P V in TF32"}},
      {"Q K^T and P V in TF32", {d::all_tf32}, {"Q K^T and P V in TF32"}},
      {"one sum, never rescaled", {d::sum_rescaled_late}, {}},
      {"maximum begins at 0", {d::maximum_from_zero}, {}},
      {"maximum of the first block", {d::maximum_of_first_block}, {}},
      {"last key lost", {d::last_key_lost}, {}},
      {"first key lost", {d::first_key_lost}, {}},
      {"mask by -1e4", {d::mask_by_sentinel}, {}},
      {"V shifted in later blocks", {d::values_shifted_in_second_block}, {}},
      {"last column of K ignored", {d::last_column_ignored}, {}},
      {"exponent clamped at -20", {d::argument_clamped}, {}},
      {"exponential of 12 bits", {d::exponential_low}, {}},
      {"P: halves away from zero", {d::weights_away}, {}},
      {"P below 2^-14 flushed", {d::small_weights_flushed}, {}},
      {"lse mixes log2 and ln", {d::lse_in_log2}, {}},
      {"a row takes its neighbour's maximum", {d::neighbour_maximum}, {}},
      {"V of the first batch element", {d::batch_values_of_first}, {}},
      {"odd heads: another scale", {d::odd_heads_other_scale}, {}},
      {"O cut", {d::output_cut}, {}},
      {"ties counted once", {d::ties_counted_once}, {}},
      {"lane 3 of a partial group lost", {d::lane_three_lost}, {}},
      {"last column copied above 100 rows", {d::last_column_copied}, {}},
      {"not deterministic", {d::not_deterministic}, {}, false, false},
      {"O: halves away from zero", {d::output_away}, {}},
      {"later blocks' weights halved", {d::second_block_weights_halved}, {}},
      {"sum rescaled twice", {d::rescale_of_sum_twice}, {}},
      {"row 6 of each 64 lost above 64 rows", {d::seventh_row_lost}, {}},
      {"three blocks: one lost", {d::long_rows_lose_a_block}, {}},
      {"zeros of O negative", {d::value_sign_of_zero}, {}},
      {"scores rounded to BF16", {d::score_bf16}, {}},
      {"key 17 counts twice", {d::key_17_twice}, {}},
      {"1e-6 added to the sum", {d::sum_epsilon}, {}},
      {"maximum begins at -20", {d::maximum_from_sentinel}, {}},
      {"subnormals of V read as 0", {d::inputs_flushed}, {}},
      {"keys above 256 lost", {d::keys_above_256_lost}, {}},
      {"lse of the last row lost", {d::last_lse_lost}, {}},
      {"P rounded to 11 bits, then to BF16", {d::weights_rounded_twice}, {}},
      {"blocks of 64, ascending", {d::block_64, d::other_order}, {"key blocks of 64"}},
      {"not fused, P cut", {d::exponent_not_fused, d::weights_cut}, {"P cut toward zero"}},
      {"lanes joined the other way, O divided", {d::lanes_near, d::divided}, {"(l0 + l1) + (l2 + l3)"}},
      {"sum of BF16 weights, subtract first", {d::sum_of_bf16, d::exponent_subtract_first}, {"row sum of the BF16 weights"}},
      {"1e-6 added to the sum, blocks of 64", {d::sum_epsilon, d::block_64}, {}},
      {"mask one fewer, O cut", {d::mask_one_fewer, d::output_cut}, {}},
      {"key 17 twice, blocks of 64", {d::key_17_twice, d::block_64}, {}},
      {"not deterministic, sum rescaled twice", {d::not_deterministic, d::rescale_of_sum_twice}, {}, false, false},
  };
  const std::vector<known_defect> backward = backward_defects();
  all.insert(all.end(), backward.begin(), backward.end());
  return all;
}

}  // namespace stickybit::testing
