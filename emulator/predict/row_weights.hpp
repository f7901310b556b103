#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::detail {

/// What the model takes of a row's cast errors as given.
enum class cast_errors : std::uint8_t {
  known,      ///< each
  scattered,  ///< their sum and the sum of their squares: many terms of like size
  free,       ///< the sum of their squares: few terms decide
};

/// One row of scores as the schedule's softmax treats it.
struct row_weights {
  double largest = 0;      ///< raw score
  double sum = 0;          ///< Σ exp(s (S − largest))
  double lse = 0;          ///< natural
  cast_errors casts = cast_errors::scattered;
};

/// How a call's weights are cast, block by block.
struct weight_rules {
  forward_rules const* rules;
  schedule_kind kind;
  double scale;
  std::int64_t block = 0;  ///< keys between two maxima; 0: all
  std::int64_t part = 0;   ///< keys of a part, where the kernel splits them; 0: all
};

/// Terms of equal size that a row's cast errors are worth, (Σe²)²/Σe⁴: below `few` one decides, and rows alike in it share its error, so
/// the errors are taken as they fall; below `several` nothing averages out, and the row mass tells no more than the terms.
inline constexpr double one_cast = 1.5, several_casts = 6;

/// Splits known cast errors into what the model expects of a row: mean[j] is the expected error of weight j, square[j] the square of the rest.
/// Scattered: the row mass is spread over the weights in proportion, and the rest counts as random with mean 0 and sum 0.
/// @param errors     of the weights of visible keys
/// @param class_size  {weights.size() or more}: keys with the same K count as one term, of the sum of their errors: their number at the first
///                    of them, 0 at the others; so do the heaviest keys of the row, whatever their K
/// @param alike       other rows have the same scores: then the errors are known
/// @param balanced    the errors add up to nearly nothing, however few they are: weights that are divided by their sum before their cast
cast_errors split_cast_errors(std::span<double const> weights, std::span<double const> errors, std::span<std::int64_t const> class_size, bool alike, bool balanced,
                              std::span<double> mean, std::span<double> square);

/// Weights in the units of the row's largest score, w = exp(s (S − max)), and what their cast to BF16 makes of them.
/// @param scores  S of the visible keys  @param class_size, alike  as split_cast_errors
/// @param weights, mean, square  {scores.size()}; mean and square: as split_cast_errors, of the weights before division by the sum
row_weights cast_weights(weight_rules const& r, std::span<double const> scores, std::span<std::int64_t const> class_size, bool alike, std::span<double> weights, std::span<double> mean, std::span<double> square);

}  // namespace stickybit::detail
