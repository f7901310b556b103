#pragma once
#include "../../instruction/scalar_ftz.cuh"
#include "forward_layout.cuh"

// The fix `beta`: which scores are tied with a row's largest r, and where its maximum goes. A test that finds too many costs less than the count.

namespace stickybit::kernel::sm80 {

/// NaN and infinities are not.
__device__ inline bool is_tied(forward_arguments const& call, float r, float score) {
  return gpu::mul_ftz_f32(gpu::sub_ftz_f32(r, score), call.scale) <= call.tie.tolerance;
}

/// What is tied with r is not below this.
__device__ inline float least_tied(forward_arguments const& call, float r) { return fmaf(fabsf(r), -0x1p-21f, r) - call.tie_distance; }

/// The thread's scores of row half h that may be tied with r, each counted as at least 3/4 and at most 1; of others nearly every one as 0.
/// @pre |r| < 2^60
template <int Keys>
__device__ float candidates(forward_arguments const& call, float const (&s)[Keys / 8][4], float r, int h) {
  const float offset = 1 - least_tied(call, r) * 0x1p60f;
  float count[2] = {};
#pragma unroll
  for (int n = 0; n < Keys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) count[i] += __saturatef(fmaf(s[n][2 * h + i], 0x1p60f, offset));
  return count[0] + count[1];
}

/// Where a maximum r with ties goes.
__device__ inline float moved_maximum(forward_arguments const& call, float r) {
  const float published = r == 0 ? r : r < 0 ? 0.0f : gpu::mul_ftz_f32(call.tie.beta, r);
  if (call.tie.published) return published;
  const float shift = gpu::max_ftz_f32(call.least_shift, gpu::sub_ftz_f32(published, r));
  return gpu::add_ftz_f32(r, shift > call.most_shift ? call.most_shift : shift);
}

/// The largest score of each row of a thread so far, and whether several are tied with it.
///
/// In most blocks no row of the warp has a score that is its largest so far or may be tied with it: nothing changes then. Else a test that
/// may find too many looks for a second score near the largest, and only where it finds one are ties counted.
template <int Strips, int Keys>
class row_ties {
 public:
  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) largest_[m][h] = -INFINITY;
  }

  /// @param largest  of the thread's scores of the block
  /// @param max      the rows' maxima: go on to this block, and away from ties
  template <bool First>
  __device__ void move_maxima(forward_arguments const& call, float const (&s)[Strips][Keys / 8][4], float const (&largest)[Strips][2], float (&max)[Strips][2]) {
    bool leaves = !First && !call.tie.published;
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) leaves = leaves && largest[m][h] < least_tied(call, largest_[m][h]);
    if (__all_sync(~0U, leaves)) return;
    bool several = false;
    unsigned grown = 0;        // bit 2m + h: r is of this block
    float r[Strips][2];        // the largest score of the row: of this block or, extended, of all so far
    unsigned near[Strips][2];  // threads that have scores near it
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float before = call.tie.published ? -INFINITY : largest_[m][h], own = largest[m][h], other = __shfl_xor_sync(~0U, own, 1);
        const float pair = gpu::max_ftz_f32(own, other), other_pair = __shfl_xor_sync(~0U, pair, 2), row = gpu::max_ftz_f32(pair, other_pair);
        r[m][h] = gpu::max_ftz_f32(before, row);
        const float least = least_tied(call, r[m][h]), second = fmaxf(fmaxf(fminf(own, other), fminf(pair, other_pair)), fminf(before, row));
        several = several || !(second < least) || !(fabsf(r[m][h]) < 0x1p60f);
        near[m][h] = __ballot_sync(~0U, own >= least);
        grown |= unsigned{row >= least} << (2 * m + h);
      }
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (near[m][h] != 0) several = several || candidates<Keys>(call, s[m], r[m][h], h) > 1.25f;
    if (__any_sync(~0U, several)) move_exactly(call, s, r, max);
    else tied_rows_ &= ~grown;
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        largest_[m][h] = r[m][h];
        max[m][h] = gpu::max_ftz_f32(max[m][h], r[m][h]);
      }
  }

 private:
  __device__ void move_exactly(forward_arguments const& call, float const (&s)[Strips][Keys / 8][4], float const (&r)[Strips][2], float (&max)[Strips][2]) {
#pragma unroll
    for (int m = 0; m < Strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const bool tied = count_ties(call, s[m], r[m][h], m, h) > 1;
        tied_rows_ = (tied_rows_ & ~(1U << (2 * m + h))) | unsigned{tied} << (2 * m + h);
        if (tied) max[m][h] = gpu::max_ftz_f32(max[m][h], moved_maximum(call, r[m][h]));
      }
  }

  __device__ bool was_tied(int m, int h) const { return (tied_rows_ >> (2 * m + h) & 1) != 0; }

  /// How many scores are tied with r, of the block and, extended, of the blocks before (two stand for more). NaN and infinities are not.
  __device__ int count_ties(forward_arguments const& call, float const (&s)[Keys / 8][4], float r, int m, int h) const {
    const auto tied = [&](float score) { return is_tied(call, r, score); };
    int count = 0;
#pragma unroll
    for (int n = 0; n < Keys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) count += tied(s[n][2 * h + i]);
    count += __shfl_xor_sync(~0U, count, 1);
    count += __shfl_xor_sync(~0U, count, 2);
    return !call.tie.published && tied(largest_[m][h]) ? count + 1 + was_tied(m, h) : count;
  }

  float largest_[Strips][2];  // the maximum may have been moved away from it
  unsigned tied_rows_ = 0;    // bit 2m + h
};

}  // namespace stickybit::kernel::sm80
