#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/explain/attention_account.hpp"
#include "stickybit/explain/difference.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// What one side of a comparison gives for a call: a schedule's results, or those that a file holds of a producer.
struct call_side {
  std::string name;                             ///< "fa3", "fa2-torch+gproj", "fa3@sm80.mma.bf16.f32", "capture:cudnn"
  std::optional<attention_schedule> schedule;   ///< none of a capture
  forward_result forward;                       ///< of a schedule
  std::map<std::string, tensor, std::less<>> results;  ///< by tensor: lse o lse_log2 delta dv dk dq
};

/// "fa2-torch@sm90.mma.bf16.f32+subtract-first": a schedule, perhaps with another unit, perhaps with fixes.
/// @throws std::invalid_argument, unknown_name naming the part that is wrong
[[nodiscard]] attention_schedule schedule_from(std::string const& text);

/// Reads SCHEDULE[@UNIT][+FIX…] or capture:PRODUCER and computes, or takes from the file, everything that there is.
/// @throws std::invalid_argument naming the text where it is neither; file_error where the file has nothing of the producer
[[nodiscard]] call_side make_side(std::string const& text, tensor_file const& file, attention_problem const& problem, bool gradients);

/// One tensor that both sides have. NaN equals NaN.
struct tensor_comparison {
  std::string tensor;
  std::int64_t mismatches = 0, total = 0;
  std::int64_t first = -1;  ///< index of the first mismatch
};

struct call_difference {
  std::vector<tensor_comparison> tensors;  ///< in the order in which a kernel computes them
  std::string earliest;                    ///< the first of them that differs; empty where none does
};
/// @throws std::invalid_argument where the sides have no tensor in common, or one in other shapes
[[nodiscard]] call_difference compare_sides(call_side const& a, call_side const& b);

/// Place of an element of a tensor by its index.
[[nodiscard]] element_place place_of(attention_problem const& problem, std::string_view tensor, std::int64_t index);
[[nodiscard]] std::int64_t index_of(attention_problem const& problem, std::string_view tensor, element_place at);

/// What is said of one element: where the two emulations part; or, against a capture, how far the emulator is from its code.
[[nodiscard]] std::string tell_difference(call_side const& a, call_side const& b, attention_problem const& problem, std::string_view tensor, element_place at);

}  // namespace stickybit
