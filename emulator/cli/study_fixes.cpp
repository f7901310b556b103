#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "json_number.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/fix_costs.hpp"
#include "stickybit/study/fix_errors.hpp"
#include "stickybit/study/regimes.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

/// Adds a call's errors under every fix.
void measure(study_options const& o, std::string const& name, attention_problem problem, attention_schedule const& schedule, fix_table& table) {
  const mask_alignment mask = mask_of(schedule, problem);
  const measured_call call(name, std::move(problem), mask);
  const engine how = engine_named(o.overrides.engine_name);
  table.calls.push_back(name);
  table.errors.push_back(errors_of_fixes(schedule, table.fixes, call, how));
  table.cast.push_back(errors_of_cast(call));
}

fix_table measure_all(study_options const& o) {
  attention_schedule const& schedule = attention_schedule_named(o.schedules.front());
  fix_table table{.calls = {}, .fixes = o.fixes.empty() ? candidate_fixes() : o.fixes, .errors = {}, .cast = {}};
  for (std::string_view needed : {"gproj", "none"})
    if (std::ranges::find(table.fixes, needed) == table.fixes.end()) table.fixes.insert(table.fixes.begin(), std::string(needed));
  for (std::string const& fix : table.fixes) {
    static_cast<void>(parse_study_fix(schedule, fix));
    static_cast<void>(cost_of(fix));
  }
  std::span<named_regime const> generated = o.regimes || o.files.empty() ? named_regimes() : std::span<named_regime const>{};
  terminal_progress bar("fixes");
  const progress report = bar.report();
  const auto total = std::int64_t(o.files.size() + generated.size());
  const auto done = [&] {
    if (report) report(std::int64_t(table.calls.size()), total);
  };
  for (std::string const& file : o.files) measure(o, name_of_file(file), read_problem(tensor_file::load(file), o.overrides.overrides()), schedule, table), done();
  for (named_regime const& r : generated) measure(o, std::string(r.name), generate(r, o.seed), schedule, table), done();
  return table;
}

void print_calls(fix_table const& table) {
  const auto at = [&](std::string_view fix) { return std::size_t(std::ranges::find(table.fixes, fix) - table.fixes.begin()); };
  const std::size_t none = at("none"), gproj = at("gproj");
  fmt::print("median over rows of |error|/|exact| of dQ and dK as stored, the worst head; bias of O in BF16 ulp; best of the fixes cheaper than gproj\n");
  fmt::print("{:<34} {:>8} {:>8}  {:>17}  {:>8} {:>8}  {:>8} {:>8}  {:>8} {:>8}  {}\n", "", "none dQ", "dK", "bias of O", "gproj dQ", "dK", "cast dQ", "dK", "best dQ", "dK", "");
  for (std::size_t call = 0; call < table.calls.size(); ++call) {
    std::vector<fix_errors> const& e = table.errors[call];
    const std::size_t best = best_cheap_fix(table, call);
    fmt::print("{:<34} {:>8} {:>8}  {:>+8.4f} ± {:.4f}  {:>8} {:>8}  {:>8} {:>8}  {:>8} {:>8}  {}\n", table.calls[call], percent(e[none].dq), percent(e[none].dk), e[none].o_bias_ulp,
               e[none].o_bias_error_ulp, percent(e[gproj].dq), percent(e[gproj].dk), percent(table.cast[call].dq), percent(table.cast[call].dk), percent(e[best].dq),
               percent(e[best].dk), table.fixes[best]);
  }
}

void print_summary(std::vector<fix_summary> const& all) {
  fmt::print("\nover {} calls with a gradient. Cost: products added to the 7 of a forward and a backward pass, operations a score, bytes an element of s x d.\n"
             "best: calls where it is the best cheap fix. > 1%, worse: calls where dQ or dK is beyond 1%, or more than a tenth worse than without a fix.\n"
             "to gproj: the largest ratio of its error to gproj's; > 2: calls beyond twice gproj's.\n",
             all.empty() ? 0 : all.front().calls);
  fmt::print("{:<34} {:>8} {:>6} {:>3} {:>5} {:>5} {:>5} {:>6} {:>8} {:>9} {:>9} {:>9} {:>4}  {}\n", "fix", "products", "ops", "B", "best", "> 1%", "worse", "median", "largest", "to gproj", "dQ", "dK", "> 2",
             "worst at");
  for (fix_summary const& s : all) {
    const fix_cost c = cost_of(s.fix);
    fmt::print("{:<34} {:>7.0f}% {:>6.0f} {:>3.0f} {:>5} {:>5} {:>5} {:>6} {:>8} {:>9} {:>9.3g} {:>9.3g} {:>4}  {}\n", s.fix, 100 * c.share(), c.score_operations, c.bytes, s.best_cheap,
               s.above_one_percent, s.worse_than_none, percent(s.median), percent(s.largest), "", s.dq_to_gproj, s.dk_to_gproj, s.beyond_twice_gproj, s.worst_call);
  }
}

/// Does a fix with fewer products stay within twice gproj's error everywhere?
void print_answer(std::vector<fix_summary> const& all) {
  const double limit = cost_of("gproj").products;
  std::vector<fix_summary const*> near;
  fix_summary const* closest = nullptr;
  for (fix_summary const& s : all) {
    if (cost_of(s.fix).products >= limit) continue;
    if (s.beyond_twice_gproj == 0) near.push_back(&s);
    if (closest == nullptr || s.beyond_twice_gproj < closest->beyond_twice_gproj) closest = &s;
  }
  fmt::print("\na cheaper fix than gproj, within twice its error of dQ and dK on every call? ");
  if (!near.empty()) {
    fmt::print("yes:\n");
    for (fix_summary const* s : near)
      fmt::print("  {}: {:.0f}% more products, gproj {:.0f}%; at most {:.3g} times gproj's error of dQ, {:.3g} of dK (before the cast {:.3g} and {:.3g})\n", s->fix, 100 * cost_of(s->fix).share(),
                 100 * cost_of("gproj").share(), s->dq_to_gproj, s->dk_to_gproj, s->dq_to_gproj_before_cast, s->dk_to_gproj_before_cast);
  } else if (closest != nullptr) {
    fmt::print("no. Closest: {}, beyond it on {} of {} calls; at most {:.3g} times gproj's error of dQ, {:.3g} of dK ({})\n", closest->fix, closest->beyond_twice_gproj, closest->calls,
               closest->dq_to_gproj, closest->dk_to_gproj, closest->worst_call);
  }
}

json to_json(fix_table const& table, std::vector<fix_summary> const& summaries, std::string_view schedule) {
  json report{{"version", STICKYBIT_VERSION}, {"schedule", schedule}, {"calls", json::array()}, {"fixes", json::array()}};
  const auto errors = [](fix_errors const& e) {
    return json{{"dq_before_cast", json_number(e.dq_before_cast)}, {"dq", json_number(e.dq)}, {"dk_before_cast", json_number(e.dk_before_cast)}, {"dk", json_number(e.dk)},
                {"o_bias_ulp", json_number(e.o_bias_ulp)}, {"o_bias_error_ulp", json_number(e.o_bias_error_ulp)}, {"tied_bias_ulp", json_number(e.tied_bias_ulp)}};
  };
  for (std::size_t call = 0; call < table.calls.size(); ++call) {
    json by_fix = json::object();
    for (std::size_t fix = 0; fix < table.fixes.size(); ++fix) by_fix[table.fixes[fix]] = errors(table.errors[call][fix]);
    report["calls"].push_back({{"call", table.calls[call]}, {"errors", by_fix}, {"cast", errors(table.cast[call])}, {"best_cheap", table.fixes[best_cheap_fix(table, call)]}});
  }
  for (fix_summary const& s : summaries) {
    const fix_cost c = cost_of(s.fix);
    report["fixes"].push_back({{"fix", s.fix}, {"products", c.products}, {"score_operations", c.score_operations}, {"bytes", c.bytes}, {"calls", s.calls}, {"best_cheap", s.best_cheap},
                               {"above_one_percent", s.above_one_percent}, {"worse_than_none", s.worse_than_none}, {"median", json_number(s.median)}, {"largest", s.largest},
                               {"dq_to_gproj", s.dq_to_gproj}, {"dk_to_gproj", s.dk_to_gproj}, {"beyond_twice_gproj", s.beyond_twice_gproj}, {"worst_call", s.worst_call}});
  }
  return report;
}

void print_list() {
  const auto yes = [](bool there) { return there ? "yes" : "-"; };
  fmt::print("| fix | parameters | emulator | sm90 kernel | sm80 kernel | added products | operations a score | bytes an element | puts |\n|---|---|---|---|---|---|---|---|---|\n");
  for (fix_description const& f : all_fixes()) {
    const fix_cost c = cost_of(f.name);
    std::string parameters(f.parameters);
    for (std::size_t at = 0; (at = parameters.find('|', at)) != parameters.npos; at += 2) parameters.insert(at, 1, '\\');
    fmt::print("| {} | {} | yes | {} | {} | {:.0f}% | {:.0f} | {:.0f} | {} |\n", f.name, parameters, yes(f.kernels == in_kernels::sm90 || f.kernels == in_kernels::both),
               yes(f.kernels == in_kernels::sm80 || f.kernels == in_kernels::both), 100 * c.share(), c.score_operations, c.bytes, f.replaces);
  }
}

}  // namespace

void add_study_fixes(CLI::App& study, int& status) {
  auto o = std::make_shared<study_options>();
  auto list = std::make_shared<bool>(false);
  o->schedules = {"fa3"};
  CLI::App* command = study.add_subcommand("fixes", "every fix and sensible combination on captures and generated calls: errors, and what it costs");
  o->add_to(*command, false);
  o->add_regimes(*command);
  command->add_option("--schedule", o->schedules, "kernel")->expected(1)->capture_default_str();
  command->add_flag("--list", *list, "only the table of fixes, as Markdown");
  command->callback([o, list, &status] {
    status = 0;
    if (*list) return print_list();
    const fix_table table = measure_all(*o);
    const std::vector<fix_summary> summaries = summarize(table);
    print_calls(table);
    print_summary(summaries);
    print_answer(summaries);
    write_json(o->json_path, to_json(table, summaries, o->schedules.front()));
  });
}

}  // namespace stickybit::cli
