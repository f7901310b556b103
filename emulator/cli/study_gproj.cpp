#include <fmt/format.h>

#include <memory>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/gradient_errors.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> gproj_fixes{"none",       "subtract-first", "two-row-sums", "k-smooth", "delta-fp32",           "delta-hilo", "delta-mma",
                                           "delta-pdp", "fp32-backward",  "gproj:weights=uniform", "gproj", "fp32", "fp32:delta=pdp", "fp32+gproj"};

json errors_json(gradient_errors const& e) {
  return {{"batch", e.batch},
          {"head", e.head},
          {"dq_before_cast", e.dq_before_cast.median},
          {"dq", e.dq.median},
          {"dq_rows_left_out", e.dq.rows_left_out},
          {"dk_before_cast", e.dk_before_cast.median},
          {"dk", e.dk.median},
          {"dk_rows_left_out", e.dk.rows_left_out}};
}

void print_errors(std::string_view name, std::vector<gradient_errors> const& heads) {
  fmt::print("  {:<24}", name);
  for (gradient_errors const& e : heads) {
    if (&e - heads.data() == 4) {
      fmt::print("  ({} more heads)", heads.size() - 4);
      break;
    }
    fmt::print("  {:>8} {:>8} {:>8} {:>8}", percent(e.dq_before_cast.median), percent(e.dq.median), percent(e.dk_before_cast.median), percent(e.dk.median));
  }
  fmt::print("\n");
}

void print_causes(std::vector<row_mass_causes> const& heads) {
  const auto line = [&](std::string_view name, double row_mass_causes::* part) {
    fmt::print("  {:<46}", name);
    for (row_mass_causes const& c : heads) fmt::print("  {:>9}", percent(c.*part));
    fmt::print("\n");
  };
  fmt::print("row mass of dS, as the part of dQ that it makes (median over rows), by head:\n");
  line("all of it", &row_mass_causes::total);
  line("O rounded: delta is not of the same P V", &row_mass_causes::rounded_output);
  line("dP and delta summed by different arithmetic", &row_mass_causes::different_arithmetic);
  line("dS rounded to BF16", &row_mass_causes::score_cast);
}

json study_gproj_file(study_options const& o, std::string const& path, std::string const& schedule_name) {
  const attention_problem p = read_problem(tensor_file::load(path), o.overrides.overrides());
  attention_schedule const& schedule = attention_schedule_named(schedule_name);
  const engine how = engine_named(o.overrides.engine_name);
  const exact_call exact(p, mask_of(schedule, p));
  fmt::print("{}: {}, median over rows of |error|/|exact|; for each head dQ before its cast, dQ, dK before its cast, dK\n", name_of_file(path), schedule.name);
  json report{{"file", path}, {"schedule", schedule.name}, {"fixes", json::array()}};
  const auto add = [&](std::string_view name, std::vector<gradient_errors> const& heads) {
    print_errors(name, heads);
    json list = json::array();
    for (gradient_errors const& e : heads) list.push_back(errors_json(e));
    report["fixes"].push_back({{"fix", name}, {"heads", list}});
  };
  for (std::string const& fix : o.fixes.empty() ? gproj_fixes : o.fixes) {
    terminal_progress bar(fix);
    add(fix, errors_of_gradients(with_fixes(schedule, fix), p, exact, how, bar.report()));
  }
  add("(the cast alone)", errors_of_cast(p, exact));
  const std::vector<row_mass_causes> causes = causes_of_row_mass(schedule, p, exact, how);
  print_causes(causes);
  for (row_mass_causes const& c : causes)
    report["row_mass"].push_back({{"batch", c.batch}, {"head", c.head}, {"total", c.total}, {"rounded_output", c.rounded_output},
                                  {"different_arithmetic", c.different_arithmetic}, {"score_cast", c.score_cast}});
  return report;
}

}  // namespace

void add_study_gproj(CLI::App& study, int& status) {
  auto o = std::make_shared<study_options>();
  o->schedules = {"fa3"};
  CLI::App* command = study.add_subcommand("gproj", "relative error of dQ and dK by fix, and where the row mass of dS comes from");
  o->add_to(*command, true);
  command->add_option("--schedule", o->schedules, "kernel")->expected(1)->capture_default_str();
  command->callback([o, &status] {
    json report{{"version", STICKYBIT_VERSION}, {"files", json::array()}};
    for (std::string const& file : o->files) report["files"].push_back(study_gproj_file(*o, file, o->schedules.front()));
    write_json(o->json_path, report);
    status = 0;
  });
}

}  // namespace stickybit::cli
