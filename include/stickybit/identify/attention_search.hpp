#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/identify/schedule_axes.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// What a kernel gave for a call: O, and LSE where it gives one.
struct captured_forward {
  std::vector<bf16_code> o;    // in the problem's layout
  std::vector<f32_code> lse;   // [b, h, s], or empty
};

/// Where a search ended.
struct search_result {
  schedule_point point;
  std::int64_t mismatches = 0, total = 0;    ///< over the whole capture
  std::string first;                         ///< the first mismatch, empty without one
  std::int64_t schedules_tried = 0;
  /// For each axis the other values that fit as well, alone: what the capture cannot tell. Empty unless mismatches is 0.
  std::vector<std::vector<std::size_t>> also_fits;
};

/// Looks for the point of the space whose outputs equal the capture, knowing nothing but the call: first every unit, block width, order and exponent
/// form on some rows by their mismatches in O, then from the best of those one axis (and where stuck, two) at a time. A point that fits the rows is
/// compared with the whole capture; rows that then differ join the rows.
/// @param seed  of the choice of rows
[[nodiscard]] search_result search_attention(schedule_space const& space, attention_problem const& problem, captured_forward const& captured,
                                             progress const& report = {}, std::uint64_t seed = 1);

/// The verdict on one named schedule.
struct named_fit {
  std::string schedule;
  std::int64_t mismatches, total;  ///< total 0: the schedule does not take this call
  std::string first;
};

/// Every named schedule against the capture.
[[nodiscard]] std::vector<named_fit> fit_named_schedules(attention_problem const& problem, captured_forward const& captured);

}  // namespace stickybit
