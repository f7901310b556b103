// Reports about masks: rows that see no key, finite numbers in place of -infinity, and what lies under the mask.
#include <array>
#include <limits>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "tiny_attention.hpp"

namespace stickybit::detail {
namespace {

constexpr subnormals kept = subnormals::kept;
constexpr std::string_view no_right_value = "none: the mean over no keys is 0/0, and what stands there is a convention";

/// A textbook softmax over two masked scores, each `masked`: the two weights, divided.
f32_code textbook_weight(f32_code masked) {
  const f32_code difference = sub(masked, max(masked, masked, kept), kept);
  const f32_code p = ex2(*sm90().special_functions, mul(difference, f32_code::from_bits(0x3fb8aa3b), kept));
  return div(p, add(p, p, kept), kept);
}
f32_code textbook_output(f32_code masked, double v0, double v1) {
  const f32_code w = textbook_weight(masked), first = code_of(float(v0)), second = code_of(float(v1));
  return fma(w, second, mul(w, first, kept), kept);
}

/// Three queries and two keys, causal to the last query and key: row 0 sees nothing. Only row 0 has a gradient.
attention_problem empty_row() { return problem_of({.q = {{1}, {1}, {1}}, .k = {{0}, {0}}, .v = {{2}, {4}}, .d_o = {{1}, {0}, {0}}, .causal = true}); }

report_result open_result(std::string who, auto c) { return stated(std::move(who), c, accuracy::open); }

std::vector<report_finding> output_of_empty_row() {
  const attention_problem p = empty_row();
  report_finding f{"O of a row that sees no key, V = 2, 4", std::string(no_right_value), {}};
  f.results = {open_result("softmax over scores of -infinity", textbook_output(f32_code::infinity(true), 2, 4)),
               open_result("softmax over scores of -3.4e38", textbook_output(parse_f32("-3.4e38"), 2, 4))};
  for (const char* schedule : {"fa3", "fa2-torch"}) f.results.push_back(open_result(schedule, forward_of(kernel(schedule), p).o[0]));
  return {f};
}

std::vector<report_finding> lse_of_empty_row() {
  const attention_problem p = empty_row();
  report_finding f{"lse of a row that sees no key", "-infinity, the logarithm of an empty sum; in use is what makes the backward pass give 0", {}};
  for (const char* schedule : {"fa3", "fa2-torch"}) f.results.push_back(open_result(schedule, forward_of(kernel(schedule), p).lse[0]));
  f.results.push_back(open_result("softmax over scores of -infinity: log of its sum", sub(f32_code::infinity(true), f32_code::infinity(true), kept)));
  return {f};
}

std::vector<report_finding> gradient_of_empty_row() {
  const attention_problem p = empty_row();
  const f32_code leaked = mul(textbook_weight(parse_f32("-3.4e38")), parse_f32("1"), kept);
  report_finding f{"dV of the first key from a row that sees no key, dO = 1", "0", {judged("softmax over scores of -3.4e38", leaked, {0, 0})}};
  for (const char* schedule : {"fa3", "fa2-torch"}) f.results.push_back(judged(schedule, backward_of(kernel(schedule), p).dv[0], {0, 0}));
  return {f};
}

std::vector<report_finding> masked_nan() {
  std::vector<report_finding> findings;
  for (double masked : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const attention_problem p = problem_of({.q = {{1}, {1}}, .k = {{0}, {0}}, .v = {{2}, {masked}}, .causal = true});
    report_finding f{std::string("O of a row that sees V = 2 and not V = ") + (masked == masked ? "infinity" : "NaN"), "2", {}};
    for (const char* schedule : {"fa3", "fa2-torch", "exact"}) {
      const attention_schedule s = kernel(schedule);
      f.results.push_back(judged(schedule, forward_of(s, p).o[0], exact_output(s, p).o[0]));
    }
    findings.push_back(f);
  }
  return findings;
}

constexpr std::array<std::string_view, 2> nan_rows{"https://github.com/pytorch/pytorch/issues/103963", "https://github.com/pytorch/pytorch/issues/109517"};
constexpr std::array<std::string_view, 2> disagreement{"https://github.com/iree-org/iree/issues/24175", "https://github.com/iree-org/iree/pull/24178"};
constexpr std::array<std::string_view, 1> finite_mask{"https://github.com/AI-Hypercomputer/maxtext/issues/614"};
constexpr std::array<std::string_view, 1> leaking{"https://github.com/pytorch/pytorch/issues/101967"};

constexpr std::array reports{
    public_report{
        .number = 15,
        .id = "pytorch-103963-masked-rows",
        .addresses = nan_rows,
        .symptom = "NaN for rows whose keys are all masked",
        .input = "a causal call of three queries and two keys: row 0 sees no key",
        .cause = "A row without a key has the softmax 0/0: with scores of -infinity the arithmetic says NaN, with a large finite number every key gets the same weight. "
                 "Kernels that test for it write 0.",
        .caveat = {},
        .compute = output_of_empty_row},
    public_report{
        .number = 16,
        .id = "iree-24175-empty-sum",
        .addresses = disagreement,
        .symptom = "maintainers disagree: should a fully masked row stay NaN?",
        .input = "the same call: lse of row 0",
        .cause = "Libraries answer by convention, and differently: FlashAttention-2 stores +infinity, which makes the backward weights 0, FlashAttention-3 and split "
                 "keys -infinity. "
                 "What reads the stored lse must know which.",
        .caveat = {},
        .compute = lse_of_empty_row},
    public_report{.number = 17,
                  .id = "maxtext-614-finite-mask",
                  .addresses = finite_mask,
                  .symptom = "gradients grow a hundredfold a layer with a finite mask value",
                  .input = "the same call, dO = 1 in row 0 only",
                  .cause = "With a finite mask value a row without a key is not left out: it attends to every key with weight 1/n, and its gradient flows into their V.",
                  .caveat = "The example shows the leak, not its growth over layers.",
                  .compute = gradient_of_empty_row},
    public_report{.number = 18,
                  .id = "pytorch-101967-masked-nan",
                  .addresses = leaking,
                  .symptom = "NaN in V at a masked position reaches the output",
                  .input = "two queries, two keys, causal; V = 2 and, masked for row 0, NaN or infinity",
                  .cause = "The mask replaces scores, not V: the masked key's weight 0 still meets its V in the matrix product, and 0 times NaN or infinity is NaN. "
                           "Only a product that is never formed is 0.",
                  .caveat = {},
                  .compute = masked_nan},
};

}  // namespace

std::span<public_report const> mask_reports() noexcept { return reports; }

}  // namespace stickybit::detail
