#include <algorithm>
#include <array>

#include "stickybit/bias/warnings.hpp"

namespace stickybit {
namespace {

constexpr double none = early_warnings::undefined;
using enum warning_kind;

constexpr std::array table{
    warning_description{repeated_maxima, "repeated_maxima", "repeated row maxima", "share", 0.01,
                        "share of rows whose largest exact score is held by more than one visible key; of rows that see two keys or more and have a finite largest score",
                        "scores that are not equal by construction do not tie: no row of the 34 captured calls without equal keys; one row in a hundred is no accident "
                        "(they are what claim 3 of arXiv 2510.04212 is about)",
                        "two weights are exactly 1: where their V add up to half an ulp from a BF16 number, the little that is left rounds all of these sums one way"},
    warning_description{repeated_maxima_near, "repeated_maxima_near", "the same within beta's tolerance", "share", none,
                        "share of the same rows with another visible key whose scaled score is at most 1e-3 below the largest", "tolerance: the published code (arXiv 2510.04212)",
                        "the rows that the fix beta would treat"},
    warning_description{repeated_maxima_bf16, "repeated_maxima_bf16", "the same in BF16", "share", none,
                        "share of the same rows with another visible key whose weight exp(s (S - max)) is at least 1 - 2^-9, so that BF16 has it as 1", "1 - 2^-9 is the midpoint below 1",
                        "the rows where P V adds more than one V unscaled"},
    warning_description{key_mean_over_spread, "key_mean_over_spread", "mean key over spread of keys", "ratio", 2,
                        "|mean of the keys|2 over the root mean square of |key - mean|2, of the keys that some row sees; the largest of the key heads",
                        "normal keys have 1/sqrt(keys). Where rows are not one-hot dQ errs by 0.19% for each unit (generated calls key-mean10 to key-mean300): at 2 by "
                        "more than twice the cast's 0.165%. The captured late calls have 4, the hot ones 20",
                        "what is left of the zero row sum of dS is multiplied by the mean key and lands in every row of dQ"},
    warning_description{exponent_ulp, "exponent_ulp", "FP32 ulp of the largest exponent", "log2", 0x1p-13,
                        "FP32 ulp of the largest |S s log2 e| of a visible key, in units of the exponent of 2: what one rounding there can be off by is half of it",
                        "at 2^-13 (exponents from 1024 on) a weight is off by 2^-14 ln 2 = 4e-5, a hundredth of a BF16 ulp",
                        "the largest score's exponent is no longer 0 where scale and subtraction are fused, and all weights of the row are off by one factor"},
    warning_description{largest_exponent, "largest_exponent", "largest exponent", "log2", none, "the largest |S s log2 e| of a visible key, infinite scores left out", "",
                        "how large scores have grown"},
    warning_description{rows_at_one, "rows_at_one", "rows whose largest P rounds to 1", "share", 0.1,
                        "share of rows with a visible P of at least 1 - 2^-9 = 0.998046875, which BF16 has as 1; of rows that see two keys or more",
                        "such rows have a dQ near 0, which the errors of delta do not share; a median over rows is theirs when they are half, a tenth is on the way",
                        "attention has become one-hot: dP of the winner and delta nearly cancel, and what both are off by is all that is left"},
    warning_description{weights_at_one, "weights_at_one", "share of P in [0.998, 1]", "share", none, "the same as a share of the visible P of these rows", "", "the same"},
    warning_description{row_mass_over_dq, "row_mass_over_dq", "row mass of dS over dQ", "relative", 0.01,
                        "median over rows of |sum of the kernel's cast dS| s |PK|2 / |exact dQ|2; rows whose exact dQ is 0 left out",
                        "the cast of dQ to BF16 alone costs 0.165% (docs/fixes.md); 1% is six times that",
                        "the part of dQ that is an error along PK, because rows of dS do not add up to 0"},
    warning_description{row_mass_rounded_output, "row_mass_rounded_output", "of it, O rounded before delta", "relative", none,
                        "median over rows of the part of the row mass that comes from the stored O not being the sum of P V", "", "what a better O in delta would remove"},
    warning_description{row_mass_different_arithmetic, "row_mass_different_arithmetic", "of it, dP and delta summed differently", "relative", none,
                        "median over rows of the part that comes from dP by the tensor core and delta by FP32 additions", "", "what delta-mma would remove"},
    warning_description{row_mass_score_cast, "row_mass_score_cast", "of it, cast of dS", "relative", none, "median over rows of the part that comes from the cast of dS to BF16", "",
                        "what only a correction after the cast removes"},
    warning_description{delta_mismatch, "delta_mismatch", "dP - delta at the winner", "relative", 0x1p-8,
                        "median over rows of |(dP - delta) - exact| / |exact| at the key of the largest exact weight, dP and delta as the kernel has them; rows whose exact difference is 0 or "
                        "that see one key left out",
                        "the cast of dS to BF16 changes it by at most 2^-9 of itself; at 2^-8 the kernel's delta does more harm than that",
                        "what delta is off by enters every dP - delta of its row, and is no longer small beside the largest key's, which nearly cancels"},
};

}  // namespace

std::span<warning_description const> warning_descriptions() noexcept { return table; }

warning_description const& describe(warning_kind kind) noexcept { return *std::ranges::find(table, kind, &warning_description::kind); }

double early_warnings::value(warning_kind kind) const noexcept {
  switch (kind) {
    case warning_kind::repeated_maxima: return repeated_maxima;
    case warning_kind::repeated_maxima_near: return repeated_maxima_near;
    case warning_kind::repeated_maxima_bf16: return repeated_maxima_bf16;
    case warning_kind::key_mean_over_spread: return key_mean_over_spread;
    case warning_kind::exponent_ulp: return exponent_ulp;
    case warning_kind::largest_exponent: return largest_exponent;
    case warning_kind::rows_at_one: return rows_at_one;
    case warning_kind::weights_at_one: return weights_at_one;
    case warning_kind::row_mass_over_dq: return row_mass_over_dq;
    case warning_kind::row_mass_rounded_output: return row_mass_rounded_output;
    case warning_kind::row_mass_different_arithmetic: return row_mass_different_arithmetic;
    case warning_kind::row_mass_score_cast: return row_mass_score_cast;
    case warning_kind::delta_mismatch: return delta_mismatch;
  }
  return undefined;
}

bool early_warnings::raised(warning_kind kind) const noexcept { return value(kind) >= describe(kind).limit; }

}  // namespace stickybit
