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
  std::vector<f32_code> o_f32;  // O before its cast, like o; only where the schedule's backward pass reads it, else empty
};

/// The forward pass of the schedule's kernel: O and LSE of every row, code for code. Infinities and NaN are results.
/// Memory beside the problem: 16 bytes an element of K and V of one head; S and P are never stored.
/// @throws  unsupported_call when the schedule has no tile for the head dimension
/// @checked H200: 46 captured calls of each of FlashAttention-3, PyTorch's FlashAttention-2 (split and not) and cuDNN, every element
///          (tests/attention, `stickybit validate`)
[[nodiscard]] forward_result attention_forward(attention_schedule const& schedule, attention_problem const& problem, engine how = engine::fast,
                                               progress const& report = {});

/// The second output that the fix `delta-hilo` keeps: BF16(rn(O − BF16(O))), O in FP32, like o. Empty where o_f32 is.
[[nodiscard]] std::vector<bf16_code> low_outputs(attention_schedule const& schedule, forward_result const& forward);

/// Event: a block's P·V has been added to O.
template <class Number>
struct output_block_of {
  std::int64_t first_column;
  std::vector<Number> rescaled;     // O[d] · rescale, what the chain starts from
  std::vector<Number> accumulated;  // [d]
};
using output_block = output_block_of<f32_code>;

/// Event: one part of split keys, as it enters the sum of the parts.
template <class Number>
struct part_joined_of {
  Number lse, weight;     ///< of the part; exp(lse − joint lse)
  std::vector<Number> o;  // [d], divided by the part's own sum
};
using part_joined = part_joined_of<f32_code>;

/// Event: O before its cast to BF16, and the row's lse.
template <class Number>
struct output_ready_of {
  std::vector<Number> o;  // [d]
  Number lse;
};
using output_ready = output_ready_of<f32_code>;

/// Everything one row went through, in the order it happened. With split keys the parts follow each other.
struct forward_row_trace {
  std::vector<softmax_block> blocks;
  std::vector<softmax_weight> weights;  // every column of every block that the row's tile visits
  std::vector<output_block> outputs;
  std::vector<softmax_finished> finished;  // one for each part
  std::vector<part_joined> parts;          // empty where the keys are not split
  output_ready ready;
  std::vector<bf16_code> o;  // [d]
};

/// One row again, by the definitions, keeping each step; o and ready.lse equal attention_forward's.
/// @throws std::out_of_range when there is no such row; unsupported_call for a schedule that is not computed block by block
[[nodiscard]] forward_row_trace trace_forward_row(attention_schedule const& schedule, attention_problem const& problem, std::int64_t batch,
                                                  std::int64_t head, std::int64_t row);

}  // namespace stickybit
