#include "study.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {

void study_options::add_to(CLI::App& command, bool files_required) {
  command.add_option("FILE", files, "safetensors files with q, k, v (and do) in BF16")->required(files_required);
  command.add_option("--fixes", fixes, "fixes to compare, instead of the study's own list, blanks between")->take_all();
  command.add_option("--json", json_path, "JSON file to write");
  overrides.add_overrides(command);
  add_engine(command, overrides.engine_name);
}

void study_options::add_regimes(CLI::App& command) {
  command.add_flag("--regimes", regimes, "the generated calls too (they alone, where no FILE is given)");
  command.add_option("--seed", seed, "of the generated calls")->capture_default_str();
}

std::string percent(double x) {
  if (std::isnan(x)) return "-";
  return x >= 0.1 ? fmt::format("{:.0f}%", 100 * x) : x >= 0.01 ? fmt::format("{:.1f}%", 100 * x) : fmt::format("{:.3f}%", 100 * x);
}

void write_json(std::string const& path, nlohmann::json const& report) {
  if (path.empty()) return;
  output_file out(path);
  out.write(report.dump(2) + "\n");
  out.commit();
}

std::string name_of_file(std::string const& path) { return std::filesystem::path(path).filename().string(); }

void add_study(CLI::App& program, int& status) {
  CLI::App* study = program.add_subcommand("study", "the papers' tables on any capture");
  study->require_subcommand(1);
  add_study_gproj(*study, status);
  add_study_beta(*study, status);
  add_study_fixes(*study, status);
  add_study_isolation(*study, status);
  add_study_regime(*study, status);
  add_study_low_rank(*study, status);
}

}  // namespace stickybit::cli
