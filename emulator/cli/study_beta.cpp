#include <fmt/format.h>

#include <memory>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/regimes.hpp"
#include "stickybit/study/tied_rows.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> beta_fixes{"none", "beta:preset=v2", "beta:preset=v4", "beta", "two-row-sums", "beta+two-row-sums", "subtract-first"};

json study_beta_call(study_options const& o, std::string const& call, attention_problem const& p) {
  const engine how = engine_named(o.overrides.engine_name);
  const tied_rows rows(p, mask_of(attention_schedule_named(o.schedules.front()), p));
  fmt::print("{}: signed error of O on the {} of {} rows whose maximum is tied, BF16 ulp\n", call, rows.count, rows.tied.size());
  json report{{"call", call}, {"tied_rows", rows.count}, {"rows", rows.tied.size()}, {"results", json::array()}};
  for (std::string const& name : o.schedules) {
    attention_schedule const& schedule = attention_schedule_named(name);
    for (std::string const& fix : o.fixes.empty() ? beta_fixes : o.fixes) {
      attention_schedule fixed;
      try {
        fixed = with_fixes(schedule, fix);
      } catch (invalid_fix const& e) {
        fmt::print("  {:<10} {:<20} {}\n", name, fix, e.what());
        continue;
      }
      const tensor_error e = error_on_tied_rows(fixed, p, rows, how);
      fmt::print("  {:<10} {:<20} {:>+9.4f} ± {:.4f}   rms {:.3f}   {} too high, {} too low, sign test p = {:.2g}\n", name, fix, e.mean_signed_error_ulp, e.standard_error_ulp,
                 e.rms_error_ulp, e.positive, e.negative, e.row_sign_test);
      report["results"].push_back({{"schedule", name}, {"fix", fix}, {"mean_signed_error_ulp", e.mean_signed_error_ulp}, {"standard_error_ulp", e.standard_error_ulp},
                                   {"rms_error_ulp", e.rms_error_ulp}, {"positive", e.positive}, {"negative", e.negative}, {"row_sign_test", e.row_sign_test}});
    }
  }
  return report;
}

constexpr std::string_view explanation =
    "Where two tied keys hold nearly all of a row's weight, their sum is half an ulp from a BF16 number for every other column, and the little that\n"
    "is left decides all of these ties one way: a quarter of an ulp of bias.\n"
    "paper-v2 rounds the sum of p V and then divides: the side is that of the rest's V, so with V of one sign it is away from zero.\n"
    "The kernels divide in FP32 and round once: the side is that of (the rest's V - the tied keys' mean), so it is the other one where the rest's V\n"
    "is the smaller in magnitude (pair-*-small), the same where it is the larger (pair-*-large), and without preference where neither is (ties).\n"
    "Where the left-over is larger than an ulp (captured ties) it decides no tie, and no order shows a bias.\n"
    "beta makes the tied weight p < 1. In paper-v2 p V has more bits, and the ties are gone. A kernel divides p (v1 + v2) by the sum of p, which would\n"
    "give the tie back: what ends the bias is that p is BF16 above and FP32 below the line, an error that differs from row to row (rms rises).\n"
    "two-row-sums takes that error away, and the bias is back; so it is where BF16 holds p (tied-zero: p = 3/4), or where p underflows.\n";

}  // namespace

void add_study_beta(CLI::App& study, int& status) {
  auto o = std::make_shared<study_options>();
  o->schedules = {"paper-v2", "fa3", "fa2-torch"};
  CLI::App* command = study.add_subcommand("beta", "signed error of O on rows with a tied maximum, by rounding order and fix");
  o->add_to(*command, false);
  o->add_regimes(*command);
  command->add_option("--schedule", o->schedules, "kernels, comma between")->delimiter(',')->capture_default_str();
  command->callback([o, &status] {
    json report{{"version", STICKYBIT_VERSION}, {"calls", json::array()}};
    for (std::string const& file : o->files) report["calls"].push_back(study_beta_call(*o, name_of_file(file), read_problem(tensor_file::load(file), o->overrides.overrides())));
    if (o->regimes || o->files.empty())
      for (named_regime const& r : named_regimes())
        if (is_tied(r.kind)) report["calls"].push_back(study_beta_call(*o, std::string(r.name), generate(r, o->seed)));
    fmt::print("{}", explanation);
    write_json(o->json_path, report);
    status = 0;
  });
}

}  // namespace stickybit::cli
