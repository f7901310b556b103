#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.hpp"

// What the studies share.

namespace stickybit::cli {

struct study_options {
  std::vector<std::string> files, fixes, schedules;
  std::string json_path;
  attention_options overrides;  // only what overrides the files' metadata
  bool regimes = false;
  std::uint64_t seed = 1;

  /// Files, fixes, JSON and what overrides the files' metadata.
  void add_to(CLI::App& command, bool files_required);
  /// --regimes and --seed.
  void add_regimes(CLI::App& command);
};

/// Two significant digits or three, '-' for NaN.
[[nodiscard]] std::string percent(double x);

/// Nothing without a path.
void write_json(std::string const& path, nlohmann::json const& report);

/// The file's name, and the call in it.
[[nodiscard]] std::string name_of_file(std::string const& path);

void add_study_gproj(CLI::App& study, int& status);
void add_study_beta(CLI::App& study, int& status);
void add_study_fixes(CLI::App& study, int& status);
void add_study_isolation(CLI::App& study, int& status);
void add_study_regime(CLI::App& study, int& status);
void add_study_low_rank(CLI::App& study, int& status);

}  // namespace stickybit::cli
