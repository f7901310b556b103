#pragma once
#include <array>

#include "probe.hpp"

namespace stickybit::gpu {

extern const probe clamp_f32;
extern const probe clamp_f16;
extern const probe zero_operand;
extern const probe underflow_sign;
extern const probe negative_zeros;
extern const probe overflow;
extern const probe nan_pattern;
extern const probe fp8_wgmma_c;
extern const probe tf32_block;
extern const probe fp8_mma_c;
extern const probe fp8_mma_order;
extern const probe fp8_mma_subnormal;
extern const probe infinity_between;
extern const probe order_in_block;
extern const probe chaining;
extern const probe a_from_registers;
extern const probe every_width;
extern const probe k8_and_k16;
extern const probe mma_and_wgmma;
extern const probe scale_d_zero;
extern const probe negated_operands;
extern const probe transposed_operands;
extern const probe f16_accumulator;
extern const probe fp8_k16;
extern const probe f64_chain;
extern const probe tf32_low_bits;

/// In the order of cuda/probe/log/probes.txt.
inline const std::array<probe const*, 26> all_probes{
    &clamp_f32,
    &clamp_f16,
    &zero_operand,
    &underflow_sign,
    &negative_zeros,
    &overflow,
    &nan_pattern,
    &fp8_wgmma_c,
    &tf32_block,
    &fp8_mma_c,
    &fp8_mma_order,
    &fp8_mma_subnormal,
    &infinity_between,
    &order_in_block,
    &chaining,
    &a_from_registers,
    &every_width,
    &k8_and_k16,
    &mma_and_wgmma,
    &scale_d_zero,
    &negated_operands,
    &transposed_operands,
    &f16_accumulator,
    &fp8_k16,
    &f64_chain,
    &tf32_low_bits,
};

}  // namespace stickybit::gpu
