// Computations to compare kernels with: no captured kernel stands behind them.
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array whole_row{
    attention_tile{.head_dim = 1 << 20, .causal = false, .query_rows = 1, .key_columns = 0},
    attention_tile{.head_dim = 1 << 20, .causal = true, .query_rows = 1, .key_columns = 0},
};

constexpr std::array whole_call{
    attention_tile{.head_dim = 1 << 20, .causal = false, .query_rows = 0, .key_columns = 0},
    attention_tile{.head_dim = 1 << 20, .causal = true, .query_rows = 0, .key_columns = 0},
};

constexpr std::array eager_facts{
    fact{"S = BF16(QK), t = BF16(S s), p = expf(t - max t) in FP32; P = BF16(p / sum), O = BF16(PV)", evidence::measured,
         "H200, PyTorch 2.11: 20 of 24 captured calls; up to 4 elements of O differ where rows of P are not a multiple of 16 bytes long"},
    fact{"sum of p: 32 lanes of columns i, i + 32, ... ascending, then halves (up to 1024 keys)", evidence::measured, "the same calls"},
    fact{"backward: dV = BF16(Pt dO), dP = BF16(dO Vt), w = BF16(dP P), delta = sum of w as of p, dt = BF16(fma(-P, delta, w)), dS = BF16(dt s), dQ = BF16(dS K), dK = BF16(dSt Q)",
         evidence::measured, "H200, PyTorch 2.11: 24 of 25 captured calls; one element of dK differs with 300 keys"},
};
constexpr std::array paper_facts{
    fact{"all keys in one block; p = expf(rn(S s) - max), cast to BF16; O-bar = PV rounded to BF16, then O = BF16(O-bar / sum of the FP32 p)", evidence::reported,
         "arXiv 2510.04212 v2, Algorithm 1 and equation (4)"},
    fact{"backward: p = expf(rn(rn(S s) - lse)), delta summed serially from the BF16 O, dS = rn(p rn(dP - delta)) cast to BF16, one chain for each of dQ, dK, dV, times s",
         evidence::assumed, "Algorithm 3 leaves the order of its sums and the place of the scale open"},
};
constexpr std::array exact_facts{
    fact{"the mathematical value of the BF16 inputs, error below 2^-75 of the largest term, rounded once to nearest even", evidence::measured,
         "Boost.Multiprecision, tests/exact"},
    fact{"backward: the same of dQ, dK, dV; dK and dV of grouped heads are one sum over the group, rounded once", evidence::measured, "Boost.Multiprecision, tests/exact"},
};

constexpr forward_rules natural_rules{.exponent = exponent_form::natural,
                                      .inverse = inverse_form::division,
                                      .lse = lse_form::natural,
                                      .scalars = subnormals::kept,
                                      .output = output_form::round_then_divide};
constexpr backward_rules paper_backward{.weight = weight_form::natural,
                                        .delta = delta_sum::serial,
                                        .dq = dq_sum::one_chain,
                                        .scalars = subnormals::kept};
constexpr backward_rules eager_backward{.scaled = scale_place::score_gradients, .dq = dq_sum::one_chain, .scalars = subnormals::kept};
constexpr backward_rules exact_backward{.dq = dq_sum::one_chain, .scalars = subnormals::kept};

constexpr attention_schedule reference(std::string_view name, std::string_view kernel, schedule_kind kind, mask_alignment causal_mask, backward_rules backward,
                                       std::span<fact const> facts) {
  return {.name = name,
          .kernel = kernel,
          .kind = kind,
          .unit = "sm90.mma.bf16.f32",
          .causal_mask = causal_mask,
          .rules = natural_rules,
          .forward_tiles = whole_row,
          .split_tiles = {},
          .small = {},
          .backward = backward,
          .backward_tiles = whole_call,
          .facts = facts};
}

}  // namespace

constinit const attention_schedule eager_bf16 =
    reference("eager-bf16", "attention as BF16 matrix products and a softmax", schedule_kind::eager, mask_alignment::top_left, eager_backward, eager_facts);
constinit const attention_schedule paper_v2 = reference("paper-v2", "flash attention as in \"Why Low-Precision Transformer Training Fails\", v2",
                                                        schedule_kind::online, mask_alignment::bottom_right, paper_backward, paper_facts);
constinit const attention_schedule exact =
    reference("exact", "the mathematical value", schedule_kind::exact_value, mask_alignment::bottom_right, exact_backward, exact_facts);

}  // namespace stickybit::kernels
