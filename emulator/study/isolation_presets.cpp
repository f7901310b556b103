#include <array>

#include "stickybit/study/isolation.hpp"

namespace stickybit {
namespace {

using enum isolation_kind;

constexpr std::array presets{
    isolation_preset{unchanged, "none", "nothing", "fails", false},
    isolation_preset{whole_tile, "a", "all keys in one block", "still fails", false},
    isolation_preset{standard_attention, "b", "standard attention (eager-bf16: BF16 matrices, P divided before its cast)", "cured", true},
    isolation_preset{delta_of_p_dp, "c", "delta = rowsum(P o dP) / rowsum(P)", "cured", true},
    isolation_preset{delta_of_fp32_o, "d", "delta of an O computed again in FP32", "cured", true},
    isolation_preset{forward_in_fp32, "d'", "O computed in FP32 in the forward pass", "cured", true},
    isolation_preset{heads_in_fp32, "e", "as d, chosen heads only", "cured", true},
    isolation_preset{product_in_fp32, "f", "P V in FP32, O not cast", "cured", true},
    isolation_preset{product_then_rounded, "f'", "P V in FP32, O cast to BF16 as before", "(f) cured", true},
};

}  // namespace

std::span<isolation_preset const> isolation_presets() noexcept { return presets; }

std::string_view name_of(isolation_verdict verdict) noexcept {
  constexpr std::array<std::string_view, 6> names{"biased", "still biased", "cured", "unclear", "nothing to cure", "not available"};
  return names[std::size_t(verdict)];
}

}  // namespace stickybit
