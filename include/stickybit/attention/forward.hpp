#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/schedule/attention_schedule.hpp"
#include "stickybit/softmax/online_softmax.hpp"

namespace stickybit {

/// A call that the schedule's kernel does not take.
class unsupported_call : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct forward_result {
  std::vector<bf16_code> o;   // in the problem's layout
  std::vector<f32_code> lse;  // [b, h, s], natural logarithm
};

/// The forward pass of the schedule's kernel: O and LSE of every row, code for code.
/// Rows without a visible key: O = +0, lse = −inf. Infinities and NaN are results.
/// Memory beside the problem: 16 bytes an element of K and V of one head; S and P are never stored.
/// @throws  unsupported_call when the schedule has no tile for the head dimension
/// @checked H200: 46 captured calls of FlashAttention-3, every element (tests/attention, `stickybit validate`)
[[nodiscard]] forward_result attention_forward(attention_schedule const& schedule, attention_problem const& problem, engine how = engine::fast,
                                               progress const& report = {});

/// Event: a block's P·V has been added to O.
struct output_block {
  std::int64_t first_column;
  std::vector<f32_code> rescaled;     // O[d] · rescale, what the chain starts from
  std::vector<f32_code> accumulated;  // [d]
};

/// Everything one row went through, in the order it happened.
struct forward_row_trace {
  std::vector<softmax_block> blocks;
  std::vector<softmax_weight> weights;  // every column of every block that the row's tile visits
  std::vector<output_block> outputs;
  softmax_finished finished;
  std::vector<bf16_code> o;  // [d]
};

/// One row again, by the definitions, keeping each step; o and finished.lse equal attention_forward's.
/// @throws std::out_of_range when there is no such row
[[nodiscard]] forward_row_trace trace_forward_row(attention_schedule const& schedule, attention_problem const& problem, std::int64_t batch,
                                                  std::int64_t head, std::int64_t row);

}  // namespace stickybit
