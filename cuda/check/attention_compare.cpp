#include <array>
#include <cstdio>

#include "attention_check.hpp"

namespace stickybit::gpu {
namespace {

template <class Code>
tensor_tally tally(std::string name, std::vector<Code> const& on_gpu, std::vector<Code> const& emulated) {
  tensor_tally t{.name = std::move(name), .compared = emulated.size()};
  if (on_gpu.size() != emulated.size()) throw std::logic_error(t.name + ": sizes differ");
  for (std::size_t i = 0; i < emulated.size(); ++i) {
    if (on_gpu[i] == emulated[i] || (on_gpu[i].is_nan() && emulated[i].is_nan())) continue;
    if (t.mismatches++ == 0) t.first = i, t.on_gpu = on_gpu[i].to_bits(), t.emulated = emulated[i].to_bits();
  }
  return t;
}

}  // namespace

emulated_call emulate_call(attention_case const& c, attention_problem const& problem, attention_schedule const& schedule) {
  emulated_call call{attention_forward(schedule, problem), {}, {}};
  if (schedule.backward.delta_from == delta_source::high_and_low) call.o_low = low_outputs(schedule, call.forward);
  call_results& r = call.results;
  if (!c.backward) {
    r.o = call.forward.o, r.lse = call.forward.lse, r.o_low = call.o_low;
    return call;
  }
  backward_result g = attention_backward(schedule, problem, call.forward, {.report = {}, .scores = {}, .dq_parts = {}, .dq_order = {}});
  r.dq = std::move(g.dq), r.dk = std::move(g.dk), r.dv = std::move(g.dv);
  return call;
}

kernel::forward_fixes fixes_of(attention_schedule const& fixed, attention_schedule const& plain) {
  kernel::forward_fixes fixes;
  fixes.subtract_first = fixed.rules.exponent != plain.rules.exponent;
  fixes.two_row_sums = fixed.rules.summed == sum_of::both;
  fixes.beta = fixed.rules.ties != tied_maximum::kept;
  fixes.tie = {.beta = fixed.rules.tie.beta, .tolerance = fixed.rules.tie.tolerance, .published = fixed.rules.ties == tied_maximum::published};
  return fixes;
}

std::vector<tensor_tally> compare_results(attention_case const& c, call_results const& on_gpu, call_results const& emulated) {
  std::vector<tensor_tally> tallies;
  if (c.backward) {
    tallies.push_back(tally("dv", on_gpu.dv, emulated.dv));
    tallies.push_back(tally("dk", on_gpu.dk, emulated.dk));
    if (c.deterministic) tallies.push_back(tally("dq", on_gpu.dq, emulated.dq));
  } else {
    tallies.push_back(tally("lse", on_gpu.lse, emulated.lse));
    tallies.push_back(tally("o", on_gpu.o, emulated.o));
    if (!emulated.o_low.empty()) tallies.push_back(tally("o_low", on_gpu.o_low, emulated.o_low));
  }
  return tallies;
}

std::string mismatch_text(attention_case const& c, tensor_tally const& t) {
  std::array<char, 256> line{};
  const bool of_keys = t.name == "dk" || t.name == "dv", is_lse = t.name == "lse";
  const std::int64_t heads = of_keys ? c.key_heads : c.heads, rows = of_keys ? c.keys : c.queries, d = c.head_dim, i = std::int64_t(t.first);
  if (is_lse)
    std::snprintf(line.data(), line.size(), "lse: %zu mismatches of %zu, first at batch %lld, head %lld, row %lld: GPU 0x%08x, emulated 0x%08x", t.mismatches, t.compared, static_cast<long long>(i / rows / heads),
                  static_cast<long long>(i / rows % heads), static_cast<long long>(i % rows), t.on_gpu, t.emulated);
  else
    std::snprintf(line.data(), line.size(), "%s: %zu mismatches of %zu, first at batch %lld, head %lld, row %lld, column %lld: GPU 0x%04x, emulated 0x%04x", t.name.c_str(), t.mismatches, t.compared,
                  static_cast<long long>(i / d / heads / rows), static_cast<long long>(i / d % heads), static_cast<long long>(i / d / heads % rows), static_cast<long long>(i % d), t.on_gpu, t.emulated);
  return line.data();
}

}  // namespace stickybit::gpu
