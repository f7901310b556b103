#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

// Each command adds itself to the program and sets the program's exit status when it is the one called: 0 equal or done,
// 1 a difference. Bad usage and bad files are exceptions: main() makes one line of them, and status 2.

namespace stickybit::cli {

void add_models(CLI::App& program, int& status);
void add_explain(CLI::App& program, int& status);
void add_gemm(CLI::App& program, int& status);
void add_attention(CLI::App& program, int& status);
void add_predict(CLI::App& program, int& status);
void add_bias(CLI::App& program, int& status);
void add_compare(CLI::App& program, int& status);
void add_validate(CLI::App& program, int& status);
void add_check(CLI::App& program, int& status);
void add_study(CLI::App& program, int& status);
void add_identify(CLI::App& program, int& status);
void add_orders(CLI::App& program, int& status);
void add_reports(CLI::App& program, int& status);

/// What the commands on attention calls share: the file, the schedule, and what overrides the file's metadata.
struct attention_options {
  std::string file, schedule, unit, layout, causal, softmax_scale, engine_name = "fast", fix = "none";
  std::int64_t heads = 0, sms = 0;

  void add_to(CLI::App& command);
  /// All but FILE.
  void add_schedule(CLI::App& command);
  /// Only what overrides the file's metadata.
  void add_overrides(CLI::App& command);

  [[nodiscard]] problem_options overrides() const;
  /// The named schedule, with --unit in place of its own where given.
  [[nodiscard]] attention_schedule chosen_schedule() const;
};

/// No output may be an input or another output, under whatever names.  @throws std::invalid_argument naming both; empty outputs are none
void require_separate_files(std::vector<std::string> const& inputs, std::vector<std::string> const& outputs);

/// --engine fast|definition
void add_engine(CLI::App& command, std::string& name);
[[nodiscard]] engine engine_named(std::string const& name);

/// A bar on standard error while work goes on, if that is a terminal; erased at the end.
class terminal_progress {
 public:
  explicit terminal_progress(std::string what);
  ~terminal_progress();
  terminal_progress(terminal_progress const&) = delete;
  terminal_progress& operator=(terminal_progress const&) = delete;
  /// Empty where nobody would see it.
  [[nodiscard]] progress report();

 private:
  std::string what_;
  bool shown_;
  int last_percent_ = -1;
};

}  // namespace stickybit::cli
