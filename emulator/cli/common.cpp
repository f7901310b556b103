#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "commands.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::cli {

void attention_options::add_to(CLI::App& command) {
  command.add_option("FILE", file, "safetensors file with q, k, v in BF16")->required();
  add_schedule(command);
}

void attention_options::add_schedule(CLI::App& command) {
  command.add_option("--schedule", schedule, "the kernel's arithmetic (see `stickybit models`)")->required();
  command.add_option("--unit", unit, "tensor-core unit, instead of the schedule's own");
  add_overrides(command);
  command.add_option("--fix", fix, "changes to the kernel, joined with '+' (see `stickybit models`)")->capture_default_str();
  add_engine(command, engine_name);
}

void attention_options::add_overrides(CLI::App& command) {
  command.add_option("--causal", causal, "0 or 1, instead of the file's metadata")->check(CLI::IsMember({"0", "1"}));
  command.add_option("--softmax-scale", softmax_scale, "instead of the file's metadata, or of 1/sqrt(d)");
  command.add_option("--layout", layout, "s,h,d or b,s,h,d or b,h,s,d, instead of the file's metadata");
  command.add_option("--heads", heads, "heads of the call, per batch element, where they decide how keys are split")->check(CLI::PositiveNumber);
  command.add_option("--sms", sms, "multiprocessors of the GPU, likewise (default: the file's metadata, or 132)")->check(CLI::PositiveNumber);
}

problem_options attention_options::overrides() const {
  problem_options options;
  if (!layout.empty()) options.layout = parse_layout(layout);
  if (!causal.empty()) options.causal = causal == "1";
  if (!softmax_scale.empty()) options.softmax_scale = parse_scale(softmax_scale);
  if (heads > 0) options.call_heads = heads;
  if (sms > 0) options.sm_count = sms;
  return options;
}

attention_schedule attention_options::chosen_schedule() const {
  attention_schedule chosen = attention_schedule_named(schedule);
  if (!unit.empty()) chosen.unit = unit_named(unit).name;
  return with_fixes(chosen, fix);
}

void require_separate_files(std::vector<std::string> const& inputs, std::vector<std::string> const& outputs) {
  const auto same = [](std::string const& a, std::string const& b) {
    std::error_code unknown;
    return std::filesystem::weakly_canonical(a, unknown) == std::filesystem::weakly_canonical(b, unknown) || std::filesystem::equivalent(a, b, unknown);
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    for (std::string const& in : inputs)
      if (same(in, outputs[i])) throw std::invalid_argument(fmt::format("{}: is an input too: expected another file to write", outputs[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (!outputs[j].empty() && same(outputs[i], outputs[j])) throw std::invalid_argument(fmt::format("{}: to be written twice: expected two files", outputs[i]));
  }
}

void add_engine(CLI::App& command, std::string& name) {
  command.add_option("--engine", name, "fast, or the integer definitions it is tested against")->check(CLI::IsMember({"fast", "definition"}))->capture_default_str();
}

engine engine_named(std::string const& name) { return name == "definition" ? engine::definition : engine::fast; }

terminal_progress::terminal_progress(std::string what) : what_(std::move(what)), shown_(isatty(STDERR_FILENO) == 1) {}

terminal_progress::~terminal_progress() {
  if (shown_ && last_percent_ >= 0) fmt::print(stderr, "\r\x1b[K");
}

progress terminal_progress::report() {
  if (!shown_) return {};
  return [this](std::int64_t done, std::int64_t total) {
    const int percent = total == 0 ? 100 : int(100 * done / total);
    if (percent == last_percent_) return;
    last_percent_ = percent;
    const int filled = percent * 40 / 100;
    fmt::print(stderr, "\r{} [{:=<{}}{:<{}}] {:>3}%", what_, "", filled, "", 40 - filled, percent);
    std::fflush(stderr);
  };
}

}  // namespace stickybit::cli
