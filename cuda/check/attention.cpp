// Do our attention kernels compute what their schedules say? Random calls on the GPU against the emulator, every code of every result.
#include <cstdio>

#include "../support/program.hpp"
#include "attention_checker.hpp"
#include "attention_golden.hpp"
#include "attention_origin.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-check-attention --kernel sm80|sm90 [--backward] [--cases N] [--seed S] [--fix F] [--set NAME=VALUE;...] [--repeats R]\n"
    "                                 [--case K] [--save FILE] [--record DIR] [--unit U] [--controls] [--time] [--stop N]\n"
    "  N random calls (default 200), or the one with index K. --fix, --set: instead of what is drawn (names: batch heads key_heads queries keys\n"
    "  head_dim causal scale regime layout fix deterministic). --repeats: each call so often, with identical bits. --save: the call with its\n"
    "  results, for `stickybit validate`; --record: every call so. --controls: schedules with one rule changed must not agree. --time: TFLOP/s instead of bits.\n"
    "  --kernel none --schedule NAME: no kernel; the emulator's codes go through the GPU's memory, one of them changed with --sabotage.\n"
    "  --golden DIR, alone: the chosen calls of attention_golden.cpp, every kernel that the GPU has.\n"
    "  Exit status 0: every code is the emulator's; 1: not.\n";

bool run(int argc, char** argv) {
  const options line = attention_options({argv + 1, argv + argc});
  if (!line.operands().empty()) throw std::invalid_argument("unexpected '" + line.operands()[0] + "'");
  for (auto const& [name, value] : origin_of_results()) std::printf("%s: %s\n", name.c_str(), value.c_str());
  return line.has("golden") ? record_golden_calls(line.text("golden", ""), line.number("seed", 1)) : check_attention(line);
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-check-attention", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
