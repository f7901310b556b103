#include <fmt/format.h>

#include <memory>

#include "json_number.hpp"
#include "stickybit/study/isolation.hpp"
#include "stickybit/study/regimes.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

json errors_json(isolation_errors const& e) {
  return {{"rows", e.rows},
          {"delta_mean_signed_error_ulp", json_number(e.delta_mean_ulp)},
          {"delta_standard_error_ulp", json_number(e.delta_standard_error_ulp)},
          {"positive", e.positive},
          {"negative", e.negative},
          {"sign_test", e.sign_test},
          {"dq_error_along_pk", json_number(e.along_pk)},
          {"sum_of_coefficients", json_number(e.sum_of_coefficients)},
          {"walks", json_number(e.walks)},
          {"dq_median_relative_error", json_number(e.dq_relative_error)},
          {"o_mean_signed_error_ulp", json_number(e.o_mean_ulp)},
          {"o_standard_error_ulp", json_number(e.o_standard_error_ulp)}};
}

void print_errors(std::string_view lead, isolation_errors const& e, std::string_view verdict, std::string_view paper) {
  fmt::print("  {:<6} {:>+10.4g} ± {:<8.2g} {:>5} {:>5} {:>9.2g} {:>8} {:>+11.3g} {:>+7.2f} {:>8} {:>+8.4f} ± {:<7.4f} {:<16} {}\n", lead, e.delta_mean_ulp, e.delta_standard_error_ulp, e.positive,
             e.negative, e.sign_test, percent(e.along_pk), e.sum_of_coefficients, e.walks, percent(e.dq_relative_error), e.o_mean_ulp, e.o_standard_error_ulp, verdict, paper);
}

std::string list_of(std::vector<std::int64_t> const& heads) { return fmt::format("{}", fmt::join(heads, ",")); }

void print_result(isolation_result const& r) {
  if (r.verdict == isolation_verdict::not_available) return fmt::print("  {:<6} not available: {}\n", r.preset->letter, r.reason);
  if (r.preset->kind != isolation_kind::heads_in_fp32) return print_errors(r.preset->letter, r.all, name_of(r.verdict), r.preset->paper);
  print_errors(r.preset->letter, r.of_chosen, name_of(r.verdict), fmt::format("{} (heads {})", r.preset->paper, list_of(r.chosen)));
  if (r.of_others.rows > 0) print_errors("", r.of_others, "", "(the other heads)");
}

/// One call under one schedule.
struct isolated_call {
  std::string call, schedule;
  std::vector<isolation_result> results;
};

void print_call(isolated_call const& c) {
  fmt::print("{}: {}\n  {:<6} {:>10}   {:<8} {:>5} {:>5} {:>9} {:>8} {:>11} {:>7} {:>8} {:>8}   {:<7} {:<16} {}\n", c.call, c.schedule, "", "delta", "FP32 ulp", "+", "-", "sign test", "along PK",
             "sum of c", "walks", "dQ rows", "O", "ulp", "verdict", "the paper");
  for (isolation_result const& r : c.results) print_result(r);
}

json results_json(isolated_call const& c) {
  json list = json::array();
  for (isolation_result const& r : c.results) {
    json one{{"schedule", c.schedule}, {"preset", r.preset->letter}, {"change", r.preset->change}, {"verdict", name_of(r.verdict)}, {"paper", r.preset->paper}};
    if (!r.reason.empty()) one["reason"] = r.reason;
    else one.update(errors_json(r.all));
    if (!r.chosen.empty()) one.update({{"chosen_heads", r.chosen}, {"of_chosen", errors_json(r.of_chosen)}, {"of_others", errors_json(r.of_others)}});
    for (isolation_errors const& e : r.heads) one["heads"].push_back(errors_json(e));
    list.push_back(one);
  }
  return list;
}

void run_isolation(study_options const& o, std::vector<std::int64_t> const& heads, std::vector<std::string> const& regimes) {
  if (o.files.empty() && regimes.empty()) throw std::invalid_argument("study isolation: expected a FILE, or --regime");
  std::vector<std::pair<std::string, attention_problem>> calls;
  for (std::string const& file : o.files) calls.emplace_back(name_of_file(file), read_problem(tensor_file::load(file), o.overrides.overrides()));
  for (std::string const& name : regimes) calls.emplace_back(name, generate(regime_named(name), o.seed));
  std::vector<isolated_call> all;  // printed when every call went well
  for (auto const& [name, call] : calls)
    for (std::string const& schedule : o.schedules) {
      terminal_progress bar("isolation");
      all.push_back({name, schedule, isolate(attention_schedule_named(schedule), call, heads, engine_named(o.overrides.engine_name), bar.report())});
    }
  json report{{"version", STICKYBIT_VERSION}, {"calls", json::array()}};
  for (isolated_call const& c : all) {
    if (report["calls"].empty() || report["calls"].back()["call"] != c.call) report["calls"].push_back({{"call", c.call}, {"results", json::array()}});
    for (json const& one : results_json(c)) report["calls"].back()["results"].push_back(one);
  }
  write_json(o.json_path, report);
  for (isolated_call const& c : all) print_call(c);
}

void print_legend() {
  for (isolation_preset const& p : isolation_presets()) fmt::print("{:<4} {}\n", p.letter, p.change);
  fmt::print(
      "delta: mean signed error, its standard error over rows, rows too high and too low. along PK: share of the squared error of dQ. sum of c: of the\n"
      "coefficients of dQ's error along PK (minus the error of delta, where nothing else errs); walks: that sum over the root of its sum of squares.\n"
      "cured: mean and two standard errors below a quarter of the unchanged mean. still biased: above that quarter and beyond 5.4 standard errors.\n");
}

}  // namespace

void add_study_isolation(CLI::App& study, int& status) {
  auto o = std::make_shared<study_options>();
  auto heads = std::make_shared<std::vector<std::int64_t>>();
  auto names = std::make_shared<std::vector<std::string>>();
  o->schedules = {"paper-v2", "fa3"};
  CLI::App* command = study.add_subcommand("isolation", "the paper's experiments (a) to (f) on one call: which change takes the error of delta away?");
  command->add_option("FILE", o->files, "safetensors files with q, k, v and do in BF16");
  command->add_option("--regime", *names, "generated calls, comma between (see study.hpp of the library), instead of files")->delimiter(',')->allow_extra_args(false);
  command->add_option("--seed", o->seed, "of the generated calls")->capture_default_str();
  command->add_option("--schedule", o->schedules, "kernels, comma between")->delimiter(',')->allow_extra_args(false)->capture_default_str();
  command->add_option("--heads-fp32", *heads, "heads of (e), comma between, batch·heads + head (default: those whose delta is biased)")->delimiter(',')->allow_extra_args(false);
  command->add_option("--json", o->json_path, "JSON file to write");
  o->overrides.add_overrides(*command);
  add_engine(*command, o->overrides.engine_name);
  command->callback([o, heads, names, &status] {
    run_isolation(*o, *heads, *names);
    print_legend();
    status = 0;
  });
}

}  // namespace stickybit::cli
