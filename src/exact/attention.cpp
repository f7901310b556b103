#include "stickybit/exact/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

#include "stickybit/exact/weighted_sum.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

// Error of O = N/L, N = Σ w·V, L = Σ w, in u² = 2^-106 and relative to Σ w·|V| / L: the weights' own error counts once in N
// and once in L, 2·5249; weighted_sum 1236 + 3·⌈n/32⌉; the sum L 96 + 3·n/32; the division 16. Together
// 11 850 + n·6/32 < 2^14 + n·2^-2.

namespace stickybit {

exact_attention::exact_attention(bf16_rows q, bf16_rows k, bf16_rows v, double softmax_scale, mask_alignment mask)
    : softmax_(q, k, softmax_scale, mask), q_(q), k_(k), columns_(v.columns), v_(v.rows * v.columns) {
  if (k.rows != v.rows)
    throw std::invalid_argument("exact_attention: k has " + std::to_string(k.rows) + " rows, v has " + std::to_string(v.rows));
  for (std::size_t j = 0; j < v.rows; ++j)
    for (std::size_t c = 0; c < columns_; ++c) {
      const double value = to_double(v.row(j)[c]);
      if (std::isfinite(value)) v_[j * columns_ + c] = value;
      else specials_.push_back({j, c, value});
    }
}

void exact_attention::apply_specials(std::size_t i, std::size_t visible, double_double* o) const {
  for (special const& s : specials_) {
    if (s.key >= visible) break;  // they are in the order of keys
    // IEEE addition has the rules wanted here: finite + infinity, infinity − infinity, NaN with anything.
    const bool weighs_nothing = std::isinf(ieee_dot(q_.row(i), k_.row(s.key)));
    o[s.column] = {o[s.column].hi + (weighs_nothing ? std::numeric_limits<double>::quiet_NaN() : s.value), 0};
  }
}

exact_rows exact_attention::evaluate(std::size_t first, std::size_t count) const {
  if (first > softmax_.rows() || count > softmax_.rows() - first)
    throw std::out_of_range("exact_attention: rows " + std::to_string(first) + " + " + std::to_string(count) + " of " +
                            std::to_string(softmax_.rows()));
  exact_rows result{.first = first, .rows = count, .columns = columns_, .o = {}, .lse = {}, .without_keys = {}, .count_without_keys = 0};
  result.o.resize(count * columns_);
  result.lse.resize(count);
  result.without_keys.resize(count);

  // A small range is not worth waking threads for.
#pragma omp parallel if (count > 1 && count * softmax_.keys() >= 4096)
  {
    const host::ieee_environment ieee;
    std::vector<double_double> weights(softmax_.keys());
    weighted_sum sums(columns_);
#pragma omp for schedule(dynamic)
    for (std::size_t r = 0; r < count; ++r) {
      const softmax_row row = softmax_.evaluate(first + r, weights);
      const std::span<double_double> o = std::span(result.o).subspan(r * columns_, columns_);
      result.lse[r] = row.lse;
      result.without_keys[r] = row.visible == 0;
      if (row.visible == 0) continue;
      if (!row.determined) {
        std::fill(o.begin(), o.end(), double_double{std::numeric_limits<double>::quiet_NaN(), 0});
        continue;
      }
      sums.clear();
      for (std::size_t j = 0; j < row.visible; ++j)
        if (weights[j].hi != 0) sums.add(weights[j], std::span(v_).subspan(j * columns_, columns_));
      sums.result(o);
      for (double_double& value : o) value = value / row.sum;
      apply_specials(first + r, row.visible, o.data());
    }
  }
  result.count_without_keys = std::size_t(std::count(result.without_keys.begin(), result.without_keys.end(), std::uint8_t{1}));
  return result;
}

}  // namespace stickybit
