#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// One tensor that the file holds, against its emulation.
struct verdict {
  std::string tensor;
  std::int64_t total = 0;
  std::int64_t mismatches = 0;
  std::string first;    ///< where and with which codes the first mismatch is; empty without one
  std::string note;     ///< what the emulation settled ("split-k 3"); may be empty
  std::string skipped;  ///< the reason, where nothing was compared
  int place = 0;        ///< order of computation: the tensor with the smallest place that differs is the earliest
};

struct validate_options {
  std::optional<std::string> unit;  ///< instead of the unit that the file's metadata names
  problem_options problem;
  bool nan_bits = false;
  engine how = engine::fast;
  progress report;
};

/// Emulates every result in the file and compares it, code by code. What a file is, its tensors say:
///  - q, k, v: an attention call; results are <producer>.o and <producer>.lse of a producer that is a schedule;
///  - a [n,K], b [n,K], c [n], d [n]: inner products of one unit, which metadata gpu, instruction, input_format and output_format name;
///  - a [M,K], b [N,K], optional c [M,N]: a matrix product; results are d, <producer>.d_f32 and <producer>.d_bf16. How K was split is not
///    in the file: 1 to 16 slices are tried, and the note names each that fits.
/// Every other tensor is a skipped verdict with its reason.
/// @throws file_error where the file is none of these, or its tensors do not fit together
[[nodiscard]] std::vector<verdict> validate(tensor_file const& file, validate_options const& options = {});

}  // namespace stickybit
