#pragma once
#include <limits>

#include "../attention/call_plan.hpp"
#include "stickybit/bias/rounding_points.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::detail {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline double_double real(f32_code c) noexcept { return {to_double(c), 0}; }

/// The kernel's scalar operations on double_double: rounded to FP32 as the kernel does where their point rounds, exact where not.
/// On FP32 numbers a rounded operation is that of rounding/arithmetic.hpp: sum, product and fma of FP32 numbers are exact in a
/// double_double, and no quotient of two is closer to a midpoint than 2^-48 of itself without being one.
class selective_arithmetic {
 public:
  /// Factors of a score; FP32 where exp_argument rounds.
  struct factors {
    double_double scale, log2_e, scale_log2;
  };

  selective_arithmetic(call_plan const& plan, double softmax_scale);

  void choose(rounding_points active) noexcept { active_ = active; }
  [[nodiscard]] bool rounds(rounding_point p) const noexcept { return active_.has(p); }
  [[nodiscard]] factors const& score_factors() const noexcept { return rounds(rounding_point::exp_argument) ? rounded_factors_ : exact_factors_; }

  [[nodiscard]] double_double add(rounding_point p, double_double a, double_double b) const;
  [[nodiscard]] double_double mul(rounding_point p, double_double a, double_double b) const;
  [[nodiscard]] double_double fma(rounding_point p, double_double a, double_double b, double_double c) const;
  [[nodiscard]] double_double div(rounding_point p, double_double a, double_double b) const;

  /// The schedule's exponential: of base e in natural units, else of base 2.
  [[nodiscard]] double_double exponential(rounding_point p, double_double x) const;
  /// 1/sum by MUFU.
  [[nodiscard]] double_double reciprocal(rounding_point p, double_double sum) const;

 private:
  [[nodiscard]] double_double operand(double_double x) const noexcept;
  [[nodiscard]] double_double to_f32(double_double x) const noexcept;

  call_plan const& plan_;
  bool flushed_;
  double_double ln2_;
  factors exact_factors_, rounded_factors_;
  rounding_points active_ = rounding_points::none();
};

}  // namespace stickybit::detail
