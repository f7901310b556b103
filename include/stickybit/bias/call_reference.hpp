#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/exact/gradients.hpp"

namespace stickybit {

/// The exact O of a call, and its exact gradients where it has dO: computed once, compared with many schedules.
/// Memory beside the problem: O((s + s_k)·d) a head; the matrices P, dP and dS are never stored.
class call_reference {
 public:
  enum class of : std::uint8_t { output, output_and_gradients };

  /// The problem must outlive it.
  /// @param mask  as mask_of has it for the schedules to compare with
  /// @throws std::invalid_argument for a scale that is not above 0
  call_reference(attention_problem const& problem, mask_alignment mask, of what = of::output_and_gradients, progress const& report = {});
  call_reference(call_reference const&) = delete;
  call_reference& operator=(call_reference const&) = delete;

  [[nodiscard]] attention_problem const& problem() const noexcept { return problem_; }
  [[nodiscard]] mask_alignment mask() const noexcept { return mask_; }
  [[nodiscard]] bool has_gradients() const noexcept { return !values_.empty(); }
  /// Of one query head; dk and dv are its part of its key head's.  @pre has_gradients()
  [[nodiscard]] head_gradients const& values(std::int64_t batch, std::int64_t head) const { return values_[index(batch, head)]; }
  /// To have P, dP and dS of single keys again.  @pre has_gradients()
  [[nodiscard]] exact_gradients const& gradients(std::int64_t batch, std::int64_t head) const { return gradients_[index(batch, head)]; }
  /// O[s × d] of one query head; 0 in rows without keys.
  [[nodiscard]] std::vector<double_double> const& output(std::int64_t batch, std::int64_t head) const { return outputs_[index(batch, head)]; }

  /// Signed error of an O that is there already, as bias_of_output has it.
  [[nodiscard]] output_bias error_of(forward_result const& forward) const;
  /// Signed error of delta, dQ, dK and dV that are there already, as bias_of_gradients has it; dp and ds stay empty.  @pre has_gradients()
  [[nodiscard]] gradient_bias error_of(backward_result const& backward) const;
  /// What no kernel with BF16 outputs is under: the exact O, dQ, dK, dV rounded once to nearest even; delta stays empty.
  [[nodiscard]] output_bias error_of_rounded_output() const;
  [[nodiscard]] gradient_bias error_of_rounded_gradients() const;

 private:
  [[nodiscard]] std::size_t index(std::int64_t b, std::int64_t head) const noexcept { return std::size_t(b * problem_.heads + head); }
  template <class Value>
  [[nodiscard]] output_bias compare_output(Value const& value) const;
  template <class Value>
  [[nodiscard]] tensor_error compare_dq(Value const& value) const;
  template <class Value>
  [[nodiscard]] tensor_error compare_keys(std::vector<double_double> head_gradients::*gradient, Value const& value) const;

  attention_problem const& problem_;
  mask_alignment mask_;
  std::vector<std::vector<double_double>> outputs_;         ///< [b, h]
  std::vector<std::vector<std::uint8_t>> without_keys_;     ///< [b, h]
  std::deque<exact_gradients> gradients_;                   ///< [b, h]
  std::vector<head_gradients> values_;                      ///< [b, h]
};

}  // namespace stickybit
