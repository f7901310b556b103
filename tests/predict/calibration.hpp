#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/predict/forecast.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

// Is a prediction right, and is its standard error? The emulator is the witness.
//
// Unit: a column of O, dQ, dK, dV (mean over rows); four rows of delta, dP, dS (mean of their means: a single row of delta is the sum of few
// roundings, of which one or two are the largest by far, and is not normal). Classes:
//   known       the model leaves nothing open that is worth 1e-4 ulp; the emulated mean must be the predicted one, but for steps, whose
//               number is compared with what was expected
//   abstains    a few steps make most of the variance: is_normal() is false
//   calibrated  the others: two predicted standard errors must hold 95.45% of them
// The units of a head share rows, keys or both and are not independent: the band is that of the effective number, n / (1 + (m − 1) ρ), m
// units to a head, ρ the intraclass correlation of the squared deviations in standard errors, cut at 6 (analysis of variance over heads,
// 0 at least).

namespace stickybit::test {

inline constexpr std::array tensor_names{"o", "delta", "dp", "ds", "dq", "dk", "dv"};

struct calibration {
  std::string regime, schedule;
  std::string_view tensor;
  std::int64_t units = 0, known = 0, abstained = 0;
  std::int64_t known_off = 0;      ///< known units that are not at the predicted value
  double known_steps = 0;          ///< steps expected among them
  std::int64_t calibrated = 0, inside = 0, inside_of_zero = 0;  ///< of zero: within two standard errors of 0
  double correlation = 0, effective = 0;
  double mean_square = 0;          ///< of (emulated − predicted)² / variance over all units that have one: 1 where the variance is right
  std::int64_t biased = 0, sign_right = 0;  ///< columns beyond five of their own emulated standard errors

  [[nodiscard]] double share() const noexcept { return calibrated == 0 ? 0 : double(inside) / double(calibrated); }
  /// Half the width of the 99.9% binomial band around 95.45%.
  [[nodiscard]] double half_band() const noexcept;
  [[nodiscard]] bool in_band() const noexcept;
  [[nodiscard]] bool abstains_too_often() const noexcept { return abstained * 10 > units; }
  /// Steps among the known units within the 99.9% Poisson band, with one unit of grace for each head.
  [[nodiscard]] bool steps_fit(std::int64_t heads) const noexcept;
};

/// Emulates, predicts, compares: one row a tensor. Without dO, or where gradients are not predicted, O alone.
[[nodiscard]] std::vector<calibration> calibrate(std::string regime, attention_schedule const& schedule, attention_problem const& problem);

/// The same for several schedules with one mask: the exact values are computed once.
[[nodiscard]] std::vector<calibration> calibrate_all(std::string regime, std::vector<attention_schedule> const& schedules, attention_problem const& problem);

[[nodiscard]] std::string header_line();
[[nodiscard]] std::string line_of(calibration const& c);

}  // namespace stickybit::test
