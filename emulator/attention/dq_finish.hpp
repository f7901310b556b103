#pragma once
#include <span>

#include "stickybit/format/code.hpp"
#include "stickybit/schedule/backward_rules.hpp"

namespace stickybit::detail {

/// FP32 as this arithmetic has it.
template <template <subnormals> class Arithmetic>
using number_of = typename Arithmetic<subnormals::kept>::number;

/// An addition into dQ, or of the heads of a group, with subnormals as the rules have them there.
template <template <subnormals> class Arithmetic>
number_of<Arithmetic> dq_add(backward_rules const& rules, number_of<Arithmetic> a, number_of<Arithmetic> b) {
  return rules.dq_additions == subnormals::flushed ? Arithmetic<subnormals::flushed>::add(a, b) : Arithmetic<subnormals::kept>::add(a, b);
}

/// The same for arrays: sum += part.
template <template <subnormals> class Arithmetic>
void dq_add(backward_rules const& rules, std::span<number_of<Arithmetic>> sum, std::span<number_of<Arithmetic> const> part) {
  if (rules.dq_additions == subnormals::flushed) Arithmetic<subnormals::flushed>::add(sum, part, sum);
  else Arithmetic<subnormals::kept>::add(sum, part, sum);
}

/// One element of dQ from the sums of its buffers: joined and scaled as the rules say.
/// @param buffers  one, unless the rules are those of FlashAttention-2's deterministic mode
template <class Scalars>
typename Scalars::number dq_before_cast(backward_rules const& rules, f32_code scale, std::span<typename Scalars::number const> buffers) {
  typename Scalars::number sum = buffers.front();
  if (rules.dq == dq_sum::flash_attention_2) {
    sum = Scalars::add(f32_code::zero(), sum);
    for (auto const& buffer : buffers.subspan(1)) sum = Scalars::add(sum, buffer);
  }
  return rules.scaled == scale_place::outputs ? Scalars::mul(sum, scale) : sum;
}

/// The same, cast.
template <class Scalars>
bf16_code finished_dq(backward_rules const& rules, f32_code scale, std::span<f32_code const> buffers) {
  return Scalars::to_bf16(dq_before_cast<Scalars>(rules, scale, buffers));
}

}  // namespace stickybit::detail
