#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "stickybit/attention/forward.hpp"
#include "stickybit/bias/rounding_points.hpp"
#include "stickybit/bias/signed_error.hpp"
#include "stickybit/bias/tensor_attribution.hpp"
#include "stickybit/exact/double_double.hpp"

// Which rounding of a forward kernel makes which error of O. The kernel's row is computed again with a chosen set of rounding
// points: a point in the set rounds as the kernel does, one outside gives the exact value (107 bits) of what it is handed.
//
// An operation at a point that rounds may be handed numbers that no FP32 holds, because a point before it is exact. It then
// rounds the exact result of the operation on those numbers. Three operations need more:
//  - MUFU takes the argument rounded to FP32 and is corrected by the exact effect of that rounding: only its own error is left;
//  - the chain of P·V takes operands of 53 bits: exponents are those of the operands, the cuts and the sum are the unit's;
//  - the maximum is a choice and rounds nothing: it is the largest score that the computation sees, rounded or not, and cancels
//    in exact arithmetic.
// With every point the result is the kernel's O, with none it is the mathematical value.

namespace stickybit {

/// O of single rows with a chosen set of rounding points. For one thread.
class selective_output {
 public:
  /// The problem must outlive it.
  /// @throws unsupported_call where the schedule is not computed block by block or has no tile;
  ///         std::invalid_argument (a scale that is not above 0)
  selective_output(attention_schedule const& schedule, attention_problem const& problem);
  ~selective_output();
  selective_output(selective_output const&) = delete;
  selective_output& operator=(selective_output const&) = delete;

  /// O [d]. NaN where the kernel's arithmetic gives NaN or infinity; infinities and NaN in V count as 0 unless P·V rounds.
  /// @throws std::out_of_range when there is no such row
  /// @checked every point: the kernel's O, code for code, in recorded and random calls; none: exact_attention to 2^-80 of the largest |V|
  [[nodiscard]] std::vector<double_double> row(std::int64_t batch, std::int64_t head, std::int64_t row, rounding_points active);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// One rounding point's part in the error of O, in BF16 ulp as in tensor_error.
struct point_bias {
  rounding_point point;
  /// The split: error with this point and all before it, less the error with all before it. Adds up to the total, in every element.
  double mean_signed_error_ulp;
  double standard_error_ulp;  ///< of it, over rows
  double rms_error_ulp;
  double alone_mean_signed_error_ulp;    ///< only this point rounds
  double without_mean_signed_error_ulp;  ///< all but this point round
  /// The parts along dO (tensor_attribution.hpp): of the split, alone, without. 0 where the problem has no dO.
  double along_direction = 0, alone_along_direction = 0, without_along_direction = 0;
};

struct output_attribution {
  std::vector<point_bias> points;  ///< in the order of computation
  double mean_signed_error_ulp = 0;  ///< all points, over the elements counted here
  double rms_error_ulp = 0;
  double along_direction = 0;
  std::int64_t counted = 0;   ///< elements finite with every set of points tried
  std::int64_t left_out = 0;  ///< the others
};

/// The same as every tensor has it, points by name.
[[nodiscard]] tensor_attribution by_name(output_attribution const& o);

/// The bias of O by rounding point.
/// @param o  of bias_of_output for the same call: its columns' ulps are the unit here
/// @throws   as selective_output; unsupported_call where the computation with every point is not the schedule's O code for code
[[nodiscard]] output_attribution attribute_output(attention_schedule const& schedule, attention_problem const& problem, tensor_error const& o,
                                                  engine how = engine::fast, progress const& report = {});

/// The points at which the schedule rounds in this call.  @throws as selective_output
[[nodiscard]] std::vector<rounding_point> rounding_points_of(attention_schedule const& schedule, attention_problem const& problem);

}  // namespace stickybit
