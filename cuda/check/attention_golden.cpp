#include "attention_golden.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "attention_check.hpp"
#include "attention_checker.hpp"
#include "attention_origin.hpp"
#include "stickybit/fix/fix.hpp"

namespace stickybit::gpu {
namespace {

/// Small, so that all of them are a few megabytes, yet of two blocks of keys or more in every kernel. Each regime and each fix is there.
constexpr std::array<std::string_view, 24> golden_calls{
    "regime=random;head_dim=64;causal=0;queries=40;keys=135",
    "regime=random;head_dim=64;causal=1;queries=70;keys=150",
    "regime=random;head_dim=128;causal=0;queries=20;keys=130",
    "regime=random;head_dim=128;causal=1;queries=20;keys=140",
    "regime=random;head_dim=64;causal=1;queries=80;keys=40",
    "regime=random;head_dim=64;causal=0;queries=17;keys=131;batch=2;heads=2;key_heads=1",
    "regime=ties;head_dim=64;causal=1;queries=100;keys=130;fix=subtract-first",
    "regime=flat;head_dim=64;causal=0;queries=40;keys=135;fix=beta",
    "regime=tied-maximum;head_dim=64;causal=1;queries=40;keys=135;fix=beta:preset=v2",
    "regime=tied-maximum;head_dim=128;causal=0;queries=20;keys=135;fix=beta:preset=v4",
    "regime=tied-maximum;head_dim=64;causal=0;queries=40;keys=135;fix=beta:beta=1.25,tol=0.01",
    "regime=late;head_dim=64;causal=1;queries=40;keys=150;fix=two-row-sums",
    "regime=late;head_dim=128;causal=1;queries=20;keys=135;fix=subtract-first",
    "regime=hot;head_dim=64;causal=0;queries=140;keys=300;scale=0.0625;fix=delta-hilo",  // several parts of dQ, which cancel
    "regime=one-hot;head_dim=64;causal=0;queries=40;keys=135",
    "regime=one-hot;head_dim=128;causal=0;queries=20;keys=130;fix=delta-hilo",
    "regime=large;head_dim=64;causal=1;queries=40;keys=135;scale=0.09000000357627869",
    "regime=negative;head_dim=64;causal=0;queries=40;keys=135;fix=subtract-first+two-row-sums",
    "regime=overflow;head_dim=64;causal=0;queries=40;keys=135",
    "regime=infinite;head_dim=64;causal=1;queries=40;keys=135",
    "regime=nan;head_dim=64;causal=0;queries=40;keys=135",
    "regime=subnormal;head_dim=64;causal=0;queries=40;keys=135",
    "regime=faint;head_dim=64;causal=1;queries=40;keys=135",
    "regime=tied-maximum;head_dim=64;causal=0;queries=40;keys=135;fix=subtract-first+beta+two-row-sums+delta-hilo",
};

attention_case golden_call(std::size_t index, std::uint64_t seed, bool backward) {
  attention_case c{.seed = seed, .index = index, .backward = backward};
  c.set(golden_calls[index]);
  if (c.scale == 0.125 && c.head_dim == 128) c.scale = double(0.08838834764831845F);
  return c;
}

/// Results of one pass by one kernel; how many codes differ from the emulator's.
std::size_t run(attention_case const& c, attention_problem const& problem, std::string const& kernel, call_results& results) {
  const attention_schedule plain = checked_schedule(kernel), schedule = with_fixes(plain, c.fix);
  const emulated_call emulated = emulate_call(c, problem, schedule);
  device_options how{.choice = kernel == "sm90" ? kernel::kernel_choice::sm90 : kernel::kernel_choice::sm80, .fixes = fixes_of(schedule, plain)};
  if (!emulated.o_low.empty()) c.backward ? void(how.stored_low = &emulated.o_low) : void(how.low_output = true);
  const call_results on_gpu = run_on_device(c, problem, &emulated.forward, how);
  std::size_t mismatches = on_gpu.damage.empty() ? 0 : 1;
  for (tensor_tally const& t : compare_results(c, on_gpu, emulated.results)) {
    mismatches += t.mismatches;
    if (t.mismatches != 0) std::printf("%s %s: %s\n", kernel.c_str(), c.text().c_str(), mismatch_text(c, t).c_str());
  }
  if (c.backward) results.dq = on_gpu.dq, results.dk = on_gpu.dk, results.dv = on_gpu.dv;
  else results.o = on_gpu.o, results.o_low = on_gpu.o_low, results.lse = on_gpu.lse;
  return mismatches;
}

}  // namespace

bool record_golden_calls(std::string const& folder, std::uint64_t seed) {
  std::filesystem::create_directories(folder);
  std::size_t mismatches = 0;
  for (std::size_t i = 0; i < golden_calls.size(); ++i) {
    const attention_case c = golden_call(i, seed, false), gradients = golden_call(i, seed, true);
    const attention_problem problem = make_problem(gradients);
    safetensors_writer file = call_file(c, problem);
    for (std::string const kernel : {"sm90", "sm80"}) {
      if (kernel == "sm90" && compute_capability() != 90) continue;
      call_results results;
      mismatches += run(c, problem, kernel, results);
      if (kernel == "sm80") mismatches += run(gradients, problem, kernel, results);
      add_results(file, c, with_fixes(checked_schedule(kernel), c.fix), results);
    }
    char name[64];
    std::snprintf(name, sizeof name, "/%02zu_%s_d%d_c%d.safetensors", i, c.regime.c_str(), int(c.head_dim), c.causal);
    file.write(folder + name);
  }
  std::printf("%zu calls in %s: %zu mismatches\n", golden_calls.size(), folder.c_str(), mismatches);
  return mismatches == 0;
}

}  // namespace stickybit::gpu
