#include "stickybit/attention/score_matrices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {
namespace {

void put(std::span<f32_code const> from, std::int64_t count, std::int64_t at, std::vector<f32_code>& to) {
  if (!to.empty()) std::copy_n(from.begin(), count, to.begin() + at);
}

}  // namespace

score_matrices::score_matrices(attention_problem const& p, std::vector<std::string> const& wanted) : heads_(p.heads), queries_(p.queries), keys_(p.keys), shape_(p.row_shape()) {
  shape_.push_back(p.keys);
  const std::optional<std::int64_t> count = element_count(shape_);
  for (std::string const& name : wanted) {
    if (name != "s" && name != "p" && name != "dp" && name != "ds") continue;
    if (!count || *count > most_elements)
      throw std::invalid_argument(fmt::format("--tensors {}: a matrix {} has more than 2^30 elements: expected fewer heads, queries or keys", name, shape_text(shape_)));
    const auto size = std::size_t(*count);
    if (name == "s") s_.assign(size, f32_code::infinity(true));
    if (name == "p") p_.assign(size, f32_code::zero());
    if (name == "dp") dp_.assign(size, f32_code::zero());
    if (name == "ds") ds_.assign(size, f32_code::zero());
  }
}

score_observer score_matrices::observer() {
  if (s_.empty() && p_.empty() && dp_.empty() && ds_.empty()) return {};
  return [this](score_block_row const& r) {
    const std::int64_t at = ((r.batch * heads_ + r.head) * queries_ + r.row) * keys_ + r.first_column;
    put(r.s, r.visible, at, s_);
    put(r.p, r.visible, at, p_);
    put(r.dp, std::int64_t(r.dp.size()), at, dp_);
    put(r.ds, r.visible, at, ds_);
  };
}

std::optional<tensor> score_matrices::take(std::string_view name, bool ds_in_fp32) {
  std::vector<f32_code>* all = name == "s" ? &s_ : name == "p" ? &p_ : name == "dp" ? &dp_ : name == "ds" ? &ds_ : nullptr;
  if (all == nullptr || all->empty()) return std::nullopt;
  const std::vector<f32_code> codes = std::exchange(*all, {});
  if (name == "ds" && !ds_in_fp32) return make_tensor<bf16_code>(dtype::bf16, shape_, to_bf16(codes));
  return make_tensor<f32_code>(dtype::f32, shape_, codes);
}

}  // namespace stickybit
