// All probes, or one: question, answer, results. Exit status 1 if an answer is not the one that we state.
#include <cstdio>

#include "../support/device.cuh"
#include "../support/options.hpp"
#include "../support/program.hpp"
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage = "usage: stickybit-probe [--only NAME]\n";

void print(std::string_view text) { std::printf("%.*s", int(text.size()), text.data()); }

/// A probe's results, each line once.
bool ask(probe const& p) {
  print(p.name);
  print(": ");
  print(p.question);
  print("\n");
  findings found;
  try {
    found = p.ask();
  } catch (std::exception const& error) {
    found.say(false, std::string("stopped: ") + error.what());
  }
  print("  stated: ");
  print(p.answer);
  print(found.as_stated ? "\n  found: as stated\n" : "\n  found: NOT AS STATED\n");
  for (std::string const& line : found.lines) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return found.as_stated;
}

bool run(int argc, char** argv) {
  const options line(argc, argv, {"only"});
  const std::string only = line.text("only", "");
  const device_description device = describe_device();
  std::printf("GPU: %s\ndriver: %s\nCUDA runtime: %s\n\n", device.gpu.c_str(), device.driver.c_str(), device.cuda.c_str());
  std::size_t asked = 0, as_stated = 0;
  for (probe const* p : all_probes) {
    if (!only.empty() && p->name != only) continue;
    ++asked;
    as_stated += ask(*p);
  }
  if (asked == 0) throw std::invalid_argument("no probe '" + only + "'");
  std::printf("\n%zu of %zu probes answered as stated\n", as_stated, asked);
  return as_stated == asked;
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-probe", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
