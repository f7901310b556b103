#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/figure/scene.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// Signed errors of one head of a result that is a matrix: o, dq (rows: queries), dk, dv (rows: keys, of a key head).
struct error_map {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> ulps;  ///< [rows × columns], value − exact in BF16 ulp at the root mean square of the column's exact values; NaN where not finite
};

[[nodiscard]] bool has_error_map(std::string_view tensor) noexcept;

/// @param codes  of the whole tensor, in the problem's layout
/// @pre has_error_map(tensor)
[[nodiscard]] error_map map_errors(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor, std::vector<bf16_code> const& codes, std::int64_t batch,
                                   std::int64_t head);

[[nodiscard]] figure::scene map_picture(error_map const& map, std::string_view tensor, std::int64_t head);

}  // namespace stickybit
