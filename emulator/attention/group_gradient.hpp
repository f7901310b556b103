#pragma once
#include <optional>
#include <span>
#include <vector>

#include "dq_finish.hpp"

namespace stickybit::detail {

/// dK or dV of one key head, of all its query heads together.
template <template <subnormals> class Arithmetic, subnormals S>
class group_gradient {
 public:
  using scalars = Arithmetic<S>;
  using number = typename scalars::number;
  using narrow = typename scalars::narrow;

  group_gradient(backward_rules const& rules, std::int64_t heads, std::size_t size) : rules_(rules), heads_(heads) {
    sums_.assign(heads > 1 && rules.group == group_sum::bf16_outputs ? 4 : 1, std::vector<number>(size, f32_code::zero()));
    result_.resize(size);
  }

  /// @param head  in the group
  void add(std::int64_t head, std::span<number const> gradient, std::optional<f32_code> scale) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const number x = scale ? scalars::mul(gradient[i], *scale) : gradient[i];
      if (heads_ == 1) {
        sums_[0][i] = x;
        result_[i] = scalars::to_bf16(x);
      } else if (rules_.group == group_sum::bf16_outputs) {
        number& sum = sums_[std::size_t(head % 4)][i];
        sum = Arithmetic<subnormals::kept>::add(sum, widen(scalars::to_bf16(x)));
      } else {
        sums_[0][i] = dq_add<Arithmetic>(rules_, sums_[0][i], x);
      }
    }
  }

  /// The values that finish() casts.  @pre finish() was called
  std::span<number const> before_cast() const { return sums_.front(); }

  std::span<narrow const> finish() {
    if (heads_ > 1)
      for (std::size_t i = 0; i < result_.size(); ++i) {
        number& sum = sums_[0][i];
        for (std::size_t lane = 1; lane < sums_.size(); ++lane) sum = Arithmetic<subnormals::kept>::add(sum, sums_[lane][i]);
        // The FP32 sums pass one more multiplication, by 1.
        if (rules_.group == group_sum::fp32_outputs) sum = scalars::mul(sum, f32_code::from_bits(0x3f800000));
        result_[i] = scalars::to_bf16(sum);
      }
    return result_;
  }

 private:
  backward_rules const& rules_;
  std::int64_t heads_;
  std::vector<std::vector<number>> sums_;
  std::vector<narrow> result_;
};

}  // namespace stickybit::detail
