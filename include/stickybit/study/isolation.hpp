#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"

// The experiments by which a failure of low-precision training was narrowed down to the rounding of O, on one call: what each does to the
// error of delta and to the part of dQ's error along PK. The paper's experiments end in a training that fails or not; here the sign of a
// failure is a mean signed error of delta, the coefficient of its equation (2).
// @source H. Qiu, Q. Yao, arXiv 2510.04212 v2, the experiments before its claims 1 and 3, equations (1) to (5)

namespace stickybit {

enum class isolation_kind : std::uint8_t {
  unchanged,
  whole_tile,            ///< (a) all keys in one block, forward and backward
  standard_attention,    ///< (b) the schedule eager-bf16 with this one's mask: S and P as BF16 matrices, P divided before its cast, no online softmax
  delta_of_p_dp,         ///< (c) delta = rowsum(P ∘ dP) of the backward pass, over rowsum(P)
  delta_of_fp32_o,       ///< (d) delta of an O computed again in FP32 (every product and sum); the stored O and lse stay the kernel's
  forward_in_fp32,       ///< (d') O and lse computed in FP32, delta of the FP32 O; the rest of the backward pass is the kernel's
  heads_in_fp32,         ///< (e) as (d), for some heads only
  product_in_fp32,       ///< (f) P V without error from the FP32 P, rounded once to FP32, O not cast: delta is of that
  product_then_rounded,  ///< (f') the same, but O is cast to BF16 as before and delta is of that
};

struct isolation_preset {
  isolation_kind kind;
  std::string_view letter;  ///< "none", "a", "b", ...
  std::string_view change;
  std::string_view paper;   ///< what became of the training, in the paper
  bool cures;               ///< in the paper; (f') is not in it and counts as (f)
};
[[nodiscard]] std::span<isolation_preset const> isolation_presets() noexcept;

/// cured: |mean| and two standard errors on top are at most a quarter of the unchanged |mean|. still_biased: |mean| is at least that quarter
/// and beyond limit_for(9) standard errors. unclear: neither. nothing_to_cure: the unchanged call is not biased by that limit.
enum class isolation_verdict : std::uint8_t { biased, still_biased, cured, unclear, nothing_to_cure, not_available };
[[nodiscard]] std::string_view name_of(isolation_verdict verdict) noexcept;

/// Errors of some heads together under one preset.
struct isolation_errors {
  std::int64_t rows = 0;            ///< with a key and a finite delta
  double delta_mean_ulp = 0, delta_standard_error_ulp = 0;  ///< value − exact, FP32 ulp at the root mean square of the head
  std::int64_t positive = 0, negative = 0;
  double sign_test = 1;             ///< of delta's errors
  double along_pk = 0;              ///< share of the sum of squares of dQ's error that lies along (PK)_i in each row
  double sum_of_coefficients = 0;   ///< Σ_i c_i, c_i = ⟨error of dQ_i, (PK)_i⟩/(s |PK_i|²): minus the error of delta, where nothing else errs
  double walks = 0;                 ///< Σ c_i/√Σ c_i²: about ±1 for a random walk, √rows for one sign and size
  double dq_relative_error = 0;     ///< median over rows, of the BF16 dQ
  double o_mean_ulp = 0, o_standard_error_ulp = 0;  ///< of the BF16 O, in BF16 ulp
};

struct isolation_result {
  isolation_preset const* preset = nullptr;
  isolation_errors all;
  std::vector<isolation_errors> heads;     ///< [b, h]
  std::vector<std::int64_t> chosen;        ///< (e): the heads, as b·h + head
  isolation_errors of_chosen, of_others;   ///< (e)
  isolation_verdict verdict = isolation_verdict::not_available;  ///< (e): of the chosen heads
  std::string reason;                      ///< not_available: why
};

/// Every preset on one call.
/// @param heads_fp32  for (e), as b·h + head; empty: the heads whose delta is biased unchanged, or head 0 where none is
/// @throws unsupported_call unless the schedule is computed block by block and has a backward pass; std::invalid_argument for a head that is not there,
///         or a problem without dO
[[nodiscard]] std::vector<isolation_result> isolate(attention_schedule const& schedule, attention_problem const& problem, std::vector<std::int64_t> heads_fp32 = {},
                                                    engine how = engine::fast, progress const& report = {});

}  // namespace stickybit
