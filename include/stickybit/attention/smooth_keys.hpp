#pragma once
#include "stickybit/attention/problem.hpp"
#include "stickybit/exact/rows.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// The call with K replaced by BF16(rn(K − mean)), for each key head and column. The mean is over the keys that some query row sees:
/// their FP32 sum in ascending order from +0, divided by their number (rounded once). A softmax row does not notice a common shift of its
/// keys, so O, dQ, dK and dV keep their exact values, and lse moves by scale·q·mean.
[[nodiscard]] attention_problem smooth_keys(attention_problem problem, mask_alignment mask, subnormals scalars);

/// The schedule for keys that are smooth already.
[[nodiscard]] inline attention_schedule without_smoothing(attention_schedule schedule) {
  schedule.smooths_keys = false;
  return schedule;
}

}  // namespace stickybit
