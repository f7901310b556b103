#include "stickybit/exact/weighted_sum.hpp"

#include <algorithm>
#include <cassert>

#include "inlined.hpp"

// A weight is cut into three: w = top + bottom + lo, top and bottom of at most 26 bits, so that their products with a value of
// up to 26 bits are exact. Within a block of 32 rows, with T = Σ|w·v| and u = 2^-53:
//   high   takes top·v by two_sum: no error but those it hands on, each ≤ uT, together ≤ 32uT
//   middle takes bottom·v, at most 2^-26 of top·v, by two_sum: hands on ≤ 32u·2^-26·T
//   low    takes what both hand on and lo·v (|lo| ≤ u|w|, so ≤ uT in all): its running sum is ≤ 34uT, each of its 32
//          additions rounds by ≤ 34u²T, what is added was itself rounded by ≤ 100u²T in all: ≤ 1188u²T
// Folding: high + middle is exact, adding the rest rounds by ≤ 36u²T, the sum into the total by 3u² of the total.

namespace stickybit {

weighted_sum::weighted_sum(std::size_t columns) : high_(columns), middle_(columns), low_(columns), total_(columns) {}

void weighted_sum::add(double_double weight, std::span<double const> row) noexcept {
  assert(row.size() == columns());
  const double_double halves = inlined::split(weight.hi);
  const double top = halves.hi, bottom = halves.lo, lo = weight.lo;
  double const* const values = row.data();
  double* const high = high_.data();
  double* const middle = middle_.data();
  double* const low = low_.data();
  const std::size_t n = row.size();
#pragma omp simd
  for (std::size_t c = 0; c < n; ++c) {
    const double_double h = inlined::two_sum(high[c], top * values[c]);
    const double_double m = inlined::two_sum(middle[c], bottom * values[c]);
    high[c] = h.hi;
    middle[c] = m.hi;
    low[c] += (h.lo + m.lo) + lo * values[c];
  }
  if (++pending_ == block) fold();
}

void weighted_sum::fold() noexcept {
  for (std::size_t c = 0; c < columns(); ++c) {
    const double_double s = inlined::two_sum(high_[c], middle_[c]);
    // Cancellation can leave s.hi below the error terms, hence two_sum.
    total_[c] = inlined::add(total_[c], inlined::two_sum(s.hi, s.lo + low_[c]));
  }
  std::fill(high_.begin(), high_.end(), 0.0);
  std::fill(middle_.begin(), middle_.end(), 0.0);
  std::fill(low_.begin(), low_.end(), 0.0);
  pending_ = 0;
}

void weighted_sum::result(std::span<double_double> sums) noexcept {
  fold();
  std::copy(total_.begin(), total_.end(), sums.begin());
}

void weighted_sum::clear() noexcept {
  fold();
  std::fill(total_.begin(), total_.end(), double_double{});
}

}  // namespace stickybit
