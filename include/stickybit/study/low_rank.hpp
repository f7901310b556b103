#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/study/gradient_errors.hpp"

// Does the error of the weight gradient dWq = dQᵀ X add up over training steps along one direction?
// @source Qiu, Yao, arXiv 2510.04212, equations (1) to (3) and claim 2

namespace stickybit {

/// One step's call, and the tokens that its queries came from.
struct training_step {
  attention_problem problem;
  std::int64_t d_model = 0;
  std::vector<double> x;  // X[b·s × d_model]
};

/// Of one step and head, matrices [d × d_model].
struct weight_gradient {
  std::vector<double> exact;      ///< dQᵀ X
  std::vector<double> error;      ///< (dQ − exact dQ)ᵀ X, with the kernel's BF16 dQ
  std::vector<double> direction;  ///< (PK)ᵀ X: what an error of delta that is the same in all rows adds up to
};

/// What does not depend on the kernel, once for all fixes.
struct exact_step {
  training_step step;
  exact_call gradients;
  std::vector<double> weighted_keys;  ///< PK, as q

  /// @throws as exact_call; std::invalid_argument unless x has b·s rows
  exact_step(training_step step, mask_alignment mask);
};

/// By head [b, h].  @throws as attention_forward and attention_backward
[[nodiscard]] std::vector<weight_gradient> weight_gradients(attention_schedule const& schedule, exact_step const& step, engine how = engine::fast);

/// σ·left·rightᵀ, the best approximation of rank one; left and right of length 1.
struct rank_one {
  std::vector<double> left, right;
  double size = 0;   ///< σ
  double share = 0;  ///< σ² of the matrix's sum of squares
};
/// By power iteration in double, from the largest row. Zero vectors for a zero matrix.
[[nodiscard]] rank_one leading_pair(std::span<double const> matrix, std::int64_t rows, std::int64_t columns);

/// A sequence of steps of one head.
struct accumulation {
  rank_one common;                  ///< of Σ_t direction_t/|direction_t|; R = left·rightᵀ
  double similarity = 0;            ///< mean over steps of the cosine of direction_t and R
  std::vector<double> coefficients; ///< c_t = ⟨error_t, R⟩
  double sum = 0;                   ///< Σ c_t
  double walks = 0;                 ///< Σ c_t/√Σ c_t²: a random walk has about ±1, a bias about √steps
  std::int64_t positive = 0, negative = 0;
  double sign_test = 1;
  double share = 0;           ///< ⟨E, R⟩²/|E|² of the accumulated error E = Σ_t error_t
  double relative_error = 0;  ///< |E|/|Σ_t exact_t|
};
/// @throws std::invalid_argument unless every matrix is [rows × columns]
[[nodiscard]] accumulation accumulate(std::span<weight_gradient const> steps, std::int64_t rows, std::int64_t columns);

/// A run that is made up, from a seed. It models what the paper says is needed, and nothing more:
///   tokens: one constant feature, features that queries and keys read (two directions shared by all tokens, and noise) and features
///   that values read. Tokens come in twins that share what keys read, so that every row's maximum is tied; a query is about three times
///   its own key and holds nearly all of its weight on itself and its twin;
///   the constant feature gives all keys a common mean (of `key_mean` in each column) and makes V negative, between −1 and −2;
///   token 0 is a sink: every row gives it a weight about 2^-10 of the twins', and its V is near 0;
///   dO has one sign, in all rows and steps; Wq, Wk and Wv drift by 1% a step.
/// It does not model training: no loss, no optimiser, nothing that the error changes feeds back. That dO keeps its sign, and that ties
/// and a sink are there, are assumptions; whether the error adds up under them is what the study shows.
struct synthetic_run {
  std::int64_t steps = 32, tokens = 128, head_dim = 64, d_model = 64;
  double key_mean = 3;
  bool one_signed_d_o = true;  ///< false: normal numbers, the control
  std::uint64_t seed = 1;
};
[[nodiscard]] std::vector<training_step> make_run(synthetic_run const& run);

/// Tokens for a call that has none: two directions shared by all steps of the seed, a mean, and noise of the step's own.
[[nodiscard]] std::vector<double> synthetic_tokens(std::int64_t rows, std::int64_t d_model, std::uint64_t seed, std::int64_t step);

}  // namespace stickybit
