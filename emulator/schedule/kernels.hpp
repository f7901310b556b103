#pragma once
#include "stickybit/schedule/attention_schedule.hpp"

// One file a family of kernels; each names its evidence.

namespace stickybit::kernels {

extern const attention_schedule fa3, fa2, fa2_torch, fa2_torch_splitkv, cudnn, efficient, flex, flex_long, triton_m64_n64, triton_m64_n32,
    triton_m128_n64, stickybit_sm80, stickybit_sm90, eager_bf16, paper_v2, exact;

inline constexpr std::string_view captures_46 =
    "H200 (driver 580.159.04, CUDA 13.0): 46 captured calls, every element of O and LSE";
inline constexpr std::string_view gradients_46 =
    "H200 (driver 580.159.04, CUDA 13.0): 46 captured calls, every element of dQ, dK and dV, of delta and lse log2 e where they are stored";
inline constexpr std::string_view gradients_146 =
    "H200 (driver 580.159.04, CUDA 13.0): 146 captured calls, every element of dQ, dK and dV (cuda/check/log/attention_gradients.txt)";
inline constexpr std::string_view gradients_backends =
    "H200 (driver 580.159.04, CUDA 13.0): captured calls whose two runs gave the same bits, every element of dQ, dK and dV (tests/identify)";

}  // namespace stickybit::kernels
