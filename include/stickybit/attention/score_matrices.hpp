#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/tensor_file/tensor.hpp"

namespace stickybit {

/// S, P, dP and dS as matrices [.., h, s, s_k], those that are asked for. S = −inf, P = +0 and dS = +0 at masked keys, whatever the kernel
/// makes of them there; dP as the kernel has it where a row's tile visits the block, else +0.
class score_matrices {
 public:
  static constexpr std::int64_t most_elements = std::int64_t{1} << 30;

  /// @param wanted  names; other tensors than s, p, dp, ds are passed over.  @throws std::invalid_argument above most_elements each
  score_matrices(attention_problem const& p, std::vector<std::string> const& wanted);

  /// For backward_options::scores; empty where nothing is asked for. Refers to this.
  [[nodiscard]] score_observer observer();

  /// The matrix, once; nothing for a name that is none or was not asked for. All FP32; ds in BF16, unless the pass does not round it.
  [[nodiscard]] std::optional<tensor> take(std::string_view name, bool ds_in_fp32);

 private:
  std::int64_t heads_, queries_, keys_;
  std::vector<std::int64_t> shape_;
  std::vector<f32_code> s_, p_, dp_, ds_;
};

}  // namespace stickybit
