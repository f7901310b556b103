#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "commands.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/property/report.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {
namespace {

struct options {
  std::string kernel, schedule, json_file, junit_file, folder, replayed;
  campaign_options campaign;
  double timeout = 30, shrink_seconds = 30;
  std::size_t explained = 3;
  bool backward = false, finite = false, no_diagnosis = false, list_properties = false, list_generators = false;
};

void print_generators() {
  for (generator_part part : {generator_part::sizes, generator_part::numbers, generator_part::values, generator_part::gradient, generator_part::overlay}) {
    fmt::print("{}\n", name_of(part));
    for (generator const& g : all_generators())
      if (g.part == part) fmt::print("  {:<20} {}\n", g.name, g.exposes);
  }
}

/// The schedule whose bits the kernel has in most of some cases.
std::string nearest_schedule(kernel_under_test& kernel, options const& o) {
  std::string best;
  std::int64_t most = -1;
  bool whole = false;
  fmt::print("no --schedule: cases of {} in which the kernel equals\n", 24);
  for (attention_schedule const& s : all_attention_schedules()) {
    campaign_options some = o.campaign;
    some.properties = {"equals-schedule"};
    some.cases = some.most_failures = 24;
    some.checkpoint.clear();
    some.space.finite = true;
    some.report = {};
    const property_count c = run_campaign(kernel, s, some).properties.at(0);
    fmt::print("  {:<20} {}\n", s.name, c.cases == 0 ? std::string("takes none of them") : fmt::format("{} of {}", c.cases - c.inexact, c.cases));
    if (c.cases != 0 && c.cases - c.inexact > most) {
      most = c.cases - c.inexact;
      whole = c.inexact == 0;
      best = s.name;
    }
  }
  if (best.empty()) throw std::invalid_argument("the kernel takes none of the cases: expected --schedule, or another space of calls");
  if (!whole) fmt::print("none in every case; of a kernel that is not meant to equal one, --approximate tests the properties alone\n");
  fmt::print("tested against {}\n\n", best);
  return best;
}

void print_counts(campaign_result const& r) {
  fmt::print("{} against {}: {} cases, seeds {} to {}, {} not taken\n", r.kernel, r.schedule, r.cases(), r.first_seed, r.next_seed - 1, r.unsupported);
  fmt::print("  {:<22} {:>7} {:>9} {:>9}  {:<16} {}\n", "property", "cases", "deviate", "failures", r.approximate ? "asked for" : "schedule has it", "largest deviation / tolerance");
  for (property_count const& p : r.properties)
    fmt::print("  {:<22} {:>7} {:>9} {:>9}  {:<16} {}\n", p.name, p.cases, p.inexact, p.failures, r.approximate ? std::string_view("within bounds") : name_of(p.expected), p.inexact == 0 ? std::string("-") : p.largest > 1e8 ? std::string("beyond any") : fmt::format("{:.2g}", p.largest));
  fmt::print("  mean error of O: against the schedule {:+.4g} ± {:.2g} BF16 ulp over {} cases{}; against exact values {:+.4g} ± {:.2g} over {}{}\n", r.against_schedule.mean(), r.against_schedule.standard_error(),
             r.against_schedule.count(), r.against_schedule.biased() ? ": BIASED" : "", r.against_exact.mean(), r.against_exact.standard_error(), r.against_exact.count(), r.against_exact.biased() ? ": biased" : "");
}

void write_text(std::string const& path, std::string const& text) {
  if (path.empty()) return;
  output_file file(path);
  file.write(text);
  file.commit();
}

nlohmann::json json_of(failure_report const& r) {
  return {{"property", r.failed.property}, {"seed", r.failed.seed},       {"recipe", r.failed.recipe}, {"what", r.what},           {"queries", r.call.queries},   {"keys", r.call.keys},        {"head_dim", r.call.head_dim},
          {"nonzero", nonzero_elements(r.call)}, {"first_step", r.first_step}, {"cause", r.cause.cause},      {"also", r.cause.also}, {"cause_known", r.cause.known}, {"file", r.file.string()}, {"replay", r.replay}};
}

int run_replay(options const& o, kernel_under_test& kernel, attention_schedule const& schedule) {
  const tensor_file file = tensor_file::load(o.replayed);
  try {
    const std::optional<property_outcome> outcome = replay(kernel, schedule, file);
    if (!outcome) throw std::invalid_argument(fmt::format("{}: the kernel, the schedule or the property does not take this call", o.replayed));
    const auto named = file.metadata.find("property");
    attention_property const& property = property_named(named == file.metadata.end() ? "equals-schedule" : named->second);
    const bool failed = is_failure(schedule, property, *outcome, o.campaign.approximate);
    fmt::print("{}: {}\n", property.name, failed ? "FAILED: " + outcome->what : outcome->exact ? std::string("holds") : "holds approximately: " + outcome->what);
    return failed ? 1 : 0;
  } catch (kernel_failure const& failure) {
    fmt::print("FAILED: {}: {}\n", name_of(failure.kind), failure.what());
    return 1;
  }
}

int run_check(options o) {
  if (o.list_properties) return fmt::print("{}", properties_markdown()), 0;
  if (o.list_generators) return print_generators(), 0;
  if (o.kernel.empty()) throw std::invalid_argument("KERNEL is required: emulated:SCHEDULE, lib:PATH, cmd:COMMAND or serve:COMMAND");
  for (std::string const& name : o.campaign.properties) (void)property_named(name);
  for (std::string const& name : o.campaign.space.only) (void)generator_named(name);
  require_separate_files({o.replayed}, {o.json_file, o.junit_file});
  o.campaign.space.gradients = o.backward;
  o.campaign.space.finite = o.finite;
  std::unique_ptr<kernel_under_test> kernel;
  try {
    kernel = kernel_named(o.kernel, o.backward, {.seconds = o.timeout});
  } catch (kernel_failure const& failure) {
    throw std::invalid_argument(failure.what());  // not a kernel at all: bad usage
  }
  if (o.backward && !kernel->has_backward()) throw std::invalid_argument(fmt::format("{} has no backward pass: expected none of --backward", kernel->name()));
  if (o.schedule.empty()) o.schedule = o.campaign.approximate ? "exact" : nearest_schedule(*kernel, o);
  attention_schedule schedule = schedule_from(o.schedule);
  o.campaign.space.least_queries = std::max(o.campaign.space.least_queries, schedule.min_queries);
  o.campaign.space.most_queries = std::max(o.campaign.space.most_queries, o.campaign.space.least_queries);
  if (!o.replayed.empty()) return run_replay(o, *kernel, schedule);
  campaign_result result;
  {
    terminal_progress bar("check");
    o.campaign.report = bar.report();
    result = run_campaign(*kernel, schedule, o.campaign);
  }
  std::vector<failure_report> reports;
  report_options how;
  how.space = o.campaign.space;
  how.diagnoses = !o.no_diagnosis;
  how.folder = o.folder;
  how.approximate = o.campaign.approximate;
  how.kernel_words = o.kernel;
  how.schedule_words = o.schedule;
  how.shrinking.seconds = o.shrink_seconds;
  std::set<std::string> seen;  // the first failure of each property tells most
  for (failed_case const& f : result.failures) {
    if (reports.size() == o.explained || !seen.insert(f.property).second) continue;
    try {
      reports.push_back(examine(*kernel, schedule, f, how));
    } catch (std::invalid_argument const& error) {
      fmt::print("{}\n", error.what());  // not deterministic: the failure stands all the same
    }
  }
  print_counts(result);
  for (failure_report const& r : reports) fmt::print("\n{}", tell(r));
  auto j = nlohmann::json::parse(to_json(result));
  j["reports"] = nlohmann::json::array();
  for (failure_report const& r : reports) j["reports"].push_back(json_of(r));
  write_text(o.json_file, o.json_file.empty() ? std::string() : j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  write_text(o.junit_file, to_junit(result, reports));
  fmt::print("\n{}\n", result.passed() ? "PASSED" : "FAILED");
  return result.passed() ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& program, int& status) {
  auto o = std::make_shared<options>();
  CLI::App* command = program.add_subcommand("check", "property-test an attention kernel against the emulator");
  command->add_option("KERNEL", o->kernel, "emulated:SCHEDULE[+FIX], lib:PATH (a library as kernel_abi.h says), cmd:COMMAND (reads and writes safetensors) or serve:COMMAND (the same, started once)");
  command->add_option("--schedule", o->schedule, "what the kernel should equal: SCHEDULE[@UNIT][+FIX]; without it the nearest one is looked for");
  command->add_option("--cases", o->campaign.cases, "how many")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--seed", o->campaign.first_seed, "of the first case; the others follow")->capture_default_str();
  command->add_flag("--backward", o->backward, "gradients too");
  command->add_flag("--approximate", o->campaign.approximate, "the kernel equals no schedule: properties must hold within their tolerance; without --schedule against exact values");
  command->add_flag("--finite", o->finite, "no NaN, no infinities, no scores beyond FP32");
  command->add_option("--property", o->campaign.properties, "only these (see --properties)")->delimiter(',');
  command->add_option("--generator", o->campaign.space.only, "only these (see --generators)")->delimiter(',');
  command->add_option("--head-dim", o->campaign.space.head_dims, "head dimensions that the kernel takes")->delimiter(',')->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--most-queries", o->campaign.space.most_queries, "")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--most-keys", o->campaign.space.most_keys, "")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--failures", o->campaign.most_failures, "stop after so many; the first of each property is made small and explained")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--seconds", o->campaign.seconds, "stop after so many; 0: never")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--explain", o->explained, "how many failures are made small and explained")->capture_default_str();
  command->add_option("--shrink-seconds", o->shrink_seconds, "at most, to make one call small")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--error-rate", o->campaign.bias_error_rate, "of the test for bias")->check(CLI::Range(1e-12, 0.1))->capture_default_str();
  command->add_option("--timeout", o->timeout, "seconds for one call of a library or command")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--checkpoint", o->campaign.checkpoint, "kept while cases run; gone on with where it exists");
  command->add_option("--out", o->folder, "folder for shrunk calls");
  command->add_option("--json", o->json_file, "the result");
  command->add_option("--junit", o->junit_file, "the result as JUnit XML");
  command->add_option("--replay", o->replayed, "one call that --out wrote, judged again");
  command->add_flag("--no-diagnosis", o->no_diagnosis, "do not look for the cause");
  command->add_flag("--properties", o->list_properties, "print docs/properties.md: every property, and which schedule has it");
  command->add_flag("--generators", o->list_generators, "print every generator and what it exposes");
  command->callback([o, &status] { status = run_check(*o); });
}

}  // namespace stickybit::cli
