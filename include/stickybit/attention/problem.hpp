#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/format/code.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// Order of a tensor's dimensions, the last one fastest: s sequence, h heads, d head dimension, b batch.
enum class tensor_layout : std::uint8_t { s_h_d, b_s_h_d, b_h_s_d };

/// Where row `i` of head `h` of batch element `b` begins, in elements.
struct row_strides {
  std::int64_t batch, head, row;
  [[nodiscard]] constexpr std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t i) const noexcept { return b * batch + h * head + i * row; }
};

/// One attention call: O = softmax(scale · Q Kᵀ + mask) V for every head; query head h uses key head h / (heads / key_heads).
struct attention_problem {
  std::int64_t batch = 1, heads = 1, key_heads = 1, queries = 0, keys = 0, head_dim = 0;
  tensor_layout layout = tensor_layout::s_h_d;
  bool causal = false;
  double softmax_scale = 1;
  std::int64_t call_heads = 0;  ///< heads of the call whose results are wanted, per batch element; 0: `heads`. Decides key splits
  std::int64_t sm_count = 132;  ///< of the GPU. Decides key splits
  std::vector<bf16_code> q, k, v;  // each in `layout`
  std::vector<bf16_code> d_o;      // like q: the gradient that arrives at O; empty where there is none

  [[nodiscard]] row_strides query_strides() const noexcept { return strides(heads, queries); }
  [[nodiscard]] row_strides key_strides() const noexcept { return strides(key_heads, keys); }
  [[nodiscard]] std::int64_t key_head_of(std::int64_t head) const noexcept { return head / (heads / key_heads); }
  /// Shape of q (and of o, do, dq); of k, v, dk and dv.
  [[nodiscard]] std::vector<std::int64_t> query_shape() const { return output_shape(); }
  [[nodiscard]] std::vector<std::int64_t> key_shape() const;
  /// Shapes of O (as q) and of lse ([b, h, s], without b in layout s,h,d).
  [[nodiscard]] std::vector<std::int64_t> output_shape() const;
  [[nodiscard]] std::vector<std::int64_t> row_shape() const;

 private:
  [[nodiscard]] row_strides strides(std::int64_t h, std::int64_t s) const noexcept {
    return layout == tensor_layout::b_h_s_d ? row_strides{h * s * head_dim, s * head_dim, head_dim} : row_strides{s * h * head_dim, head_dim, h * head_dim};
  }
};

/// What a caller sets over what the file's metadata says.
struct problem_options {
  std::optional<tensor_layout> layout;
  std::optional<bool> causal;
  std::optional<double> softmax_scale;
  std::optional<std::int64_t> call_heads, sm_count;
};

/// "s,h,d", "b,s,h,d", "b,h,s,d".  @throws std::invalid_argument naming the text and the three
[[nodiscard]] tensor_layout parse_layout(std::string_view text);
[[nodiscard]] std::string_view name_of(tensor_layout layout) noexcept;
/// A finite number.  @throws std::invalid_argument naming the text
[[nodiscard]] double parse_scale(std::string_view text);

/// Metadata that is a whole number above 0.  @throws file_error where it is something else
[[nodiscard]] std::int64_t whole_number(tensor_file const& file, std::string const& key, std::int64_t otherwise);

/// The call that a file holds: tensors q, k, v and perhaps do (BF16); metadata layout (default by rank), causal (default 0), softmax_scale
/// (default 1/√d), sm_count (default 132).
/// @throws file_error naming the tensor or the metadata, what was expected and what was found
[[nodiscard]] attention_problem read_problem(tensor_file const& file, problem_options const& options = {});

}  // namespace stickybit
