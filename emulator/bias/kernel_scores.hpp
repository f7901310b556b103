#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "../attention/score_worker.hpp"

namespace stickybit::detail {

/// The kernel's own S, P, dP and dS of some rows in one block of keys: score_worker with whichever scalars the rules have. One thread's.
class kernel_scores {
 public:
  [[nodiscard]] static std::unique_ptr<kernel_scores> make(backward_plan const& plan, engine how);
  virtual ~kernel_scores() = default;

  virtual void take(backward_key_panels const& panels, backward_rows const& rows, std::int64_t block) = 0;
  [[nodiscard]] virtual std::int64_t visible(std::size_t i) const = 0;
  [[nodiscard]] virtual std::span<f32_code const> s(std::size_t i) const = 0;
  [[nodiscard]] virtual std::span<f32_code const> p(std::size_t i) const = 0;
  [[nodiscard]] virtual std::span<f32_code const> dp(std::size_t i) const = 0;
  [[nodiscard]] virtual std::span<bf16_code const> p_cast(std::size_t i) const = 0;
  [[nodiscard]] virtual std::span<bf16_code const> ds(std::size_t i) const = 0;
};

}  // namespace stickybit::detail
