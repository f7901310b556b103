#include "kernel_scores.hpp"

namespace stickybit::detail {
namespace {

template <class Scalars>
class scores_with final : public kernel_scores {
 public:
  scores_with(backward_plan const& plan, engine how) : worker_(plan, how) {}

  void take(backward_key_panels const& panels, backward_rows const& rows, std::int64_t block) override {
    worker_.weights(panels, rows, block);
    worker_.gradients(panels, rows);
  }
  [[nodiscard]] std::int64_t visible(std::size_t i) const override { return worker_.visible(i); }
  [[nodiscard]] std::span<f32_code const> s(std::size_t i) const override { return worker_.s(i); }
  [[nodiscard]] std::span<f32_code const> p(std::size_t i) const override { return worker_.p(i); }
  [[nodiscard]] std::span<f32_code const> dp(std::size_t i) const override { return worker_.dp(i); }
  [[nodiscard]] std::span<bf16_code const> p_cast(std::size_t i) const override { return worker_.p_cast(i); }
  [[nodiscard]] std::span<bf16_code const> ds(std::size_t i) const override { return worker_.ds(i); }

 private:
  score_worker<Scalars, bf16_code> worker_;
};

template <template <subnormals> class Arithmetic>
std::unique_ptr<kernel_scores> with_subnormals(backward_plan const& plan, engine how) {
  if (plan.rules->scalars == subnormals::flushed) return std::make_unique<scores_with<Arithmetic<subnormals::flushed>>>(plan, how);
  return std::make_unique<scores_with<Arithmetic<subnormals::kept>>>(plan, how);
}

}  // namespace

std::unique_ptr<kernel_scores> kernel_scores::make(backward_plan const& plan, engine how) {
  return how == engine::fast && host::is_ieee() ? with_subnormals<host_scalars>(plan, how) : with_subnormals<defined_scalars>(plan, how);
}

}  // namespace stickybit::detail
