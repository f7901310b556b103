#include "bias.hpp"
#include "stickybit/bias/call_forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

std::string shape_text(attention_problem const& p) {
  return fmt::format("{} x {} heads, {} queries, {} keys, d = {}{}", p.batch, p.heads, p.queries, p.keys, p.head_dim, p.causal ? ", causal" : "");
}

/// Why there are no gradients, where that is no error; empty where there are.
/// @throws where gradients are asked for by name and cannot be had
std::string why_no_gradients(bias_request const& r, attention_schedule const& schedule, attention_problem const& p) {
  if (p.d_o.empty() && r.tensors.empty()) return "the file has no tensor 'do'";
  try {
    static_cast<void>(dq_blocks(schedule, p));
    return {};
  } catch (unsupported_call const& e) {
    if (!r.tensors.empty()) throw;
    return e.what();
  }
}

void take_gradients(bias_request const& r, attention_schedule const& schedule, call_reference const& reference, engine how, bias_results& results) {
  terminal_progress bar("bias of gradients");
  try {
    results.gradients = bias_of_gradients(schedule, reference, {.how = how, .report = bar.report(), .scores = r.wants("dp") || r.wants("ds"), .masses = true});
  } catch (unsupported_call const& e) {
    if (!r.tensors.empty()) throw;
    results.no_gradients = e.what();
    return;
  }
  add_gradient_warnings(results.warnings, schedule, reference, *results.gradients);
  results.gradients->masses.clear();
}

void take_attributions(bias_request const& r, attention_schedule const& schedule, attention_problem const& p, engine how, bias_results& results) {
  if (results.o) try {
      terminal_progress bar("attribution");
      results.by_point = by_name(attribute_output(schedule, p, results.o->o, how, bar.report()));
    } catch (unsupported_call const& e) {
      results.no_attribution = e.what();
    }
  if (results.gradients && r.wants_gradients()) try {
      terminal_progress bar("attribution of gradients");
      results.gradients_by_point = attribute_gradients(schedule, p, *results.gradients, how, bar.report());
    } catch (unsupported_call const& e) {
      results.no_gradient_attribution = e.what();
    }
}

void take_shares(bias_request const& r, bias_results const& results, risk_inputs& inputs) {
  const auto take = [&](std::string_view tensor, tensor_attribution const& a) {
    for (attributed_point const& p : a.points) inputs.shares[std::string(tensor)].push_back({p.name, p.mean_signed_error_ulp, p.rms_error_ulp});
  };
  if (results.by_point) take("o", *results.by_point);
  if (!results.gradients_by_point) return;
  for (gradient_tensor const& t : gradient_tensors)
    if (r.wants(t.name)) take(t.name, (*results.gradients_by_point).*t.attribution);
}

void take_predictions(bias_request const& r, attention_schedule const& schedule, attention_problem const& problem, bias_results& results) {
  terminal_progress bar("prediction");
  try {
    for (tensor_forecast const& t : summarize(forecast_call(schedule, problem, bar.report())))
      if (r.wants(t.tensor) && t.units != 0) results.predicted[std::string(t.tensor)] = {t.mean_ulp, t.standard_error_ulp};
  } catch (no_forecast const& e) {
    results.no_prediction = e.what();
  }
}

bias_results measure(bias_request const& r, std::string const& path, attention_schedule const& schedule) {
  const tensor_file file = tensor_file::load(path);
  const attention_problem problem = read_problem(file, r.attention.overrides());
  if (!r.tensors.empty() && r.wants_gradients()) static_cast<void>(file.require("do", dtype::bf16, problem.output_shape()));
  const engine how = engine_named(r.attention.engine_name);
  bias_results results;
  results.file = path;
  results.shape = shape_text(problem);
  results.heads = problem.heads;
  if (r.wants_gradients()) results.no_gradients = why_no_gradients(r, schedule, problem);
  const bool gradients = r.wants_gradients() && results.no_gradients.empty();
  terminal_progress exact_bar("exact values");
  const call_reference reference(problem, mask_of(schedule, problem), gradients ? call_reference::of::output_and_gradients : call_reference::of::output, exact_bar.report());
  if (r.wants("o")) {
    terminal_progress bar("bias");
    results.o = bias_of_output(schedule, reference, how, bar.report());
  }
  results.warnings = warnings_of_inputs(schedule, problem);
  take_predictions(r, schedule, problem, results);
  if (gradients) take_gradients(r, schedule, reference, how, results);
  if (r.attribute) take_attributions(r, schedule, problem, how, results);
  if (!r.html_path.empty()) take_maps(r, schedule, problem, how, results);
  if (r.wants_report()) {
    risk_inputs inputs{.errors = results.errors(r), .warnings = results.warnings, .shares = {}, .predicted = results.predicted};
    take_shares(r, results, inputs);
    terminal_progress bar("fixes");
    results.report = report_risks(schedule, reference, std::move(inputs), how, bar.report());
  }
  return results;
}

/// Written only when everything else went well.
class pending_files {
 public:
  explicit pending_files(bias_request const& r) {
    if (!r.json_path.empty()) json_ = std::make_unique<output_file>(r.json_path);
    if (!r.csv_path.empty()) csv_ = std::make_unique<output_file>(r.csv_path);
    if (!r.html_path.empty()) html_ = std::make_unique<output_file>(r.html_path);
  }
  void write(std::string const& json_text, std::string const& csv_text, std::string const& html_text) {
    if (json_) json_->write(json_text);
    if (csv_) csv_->write(csv_text);
    if (html_) html_->write(html_text);
    for (auto* file : {&json_, &csv_, &html_})
      if (*file) (*file)->commit();
  }

 private:
  std::unique_ptr<output_file> json_, csv_, html_;
};

json whole_json(bias_request const& r, std::vector<bias_results> const& files, attention_schedule const& schedule) {
  json report{{"version", STICKYBIT_VERSION}, {"schedule", schedule.name}, {"unit", schedule.unit}, {"fix", r.attention.fix}};
  if (files.size() == 1) {
    report.update(bias_json(r, files.front()));
    return report;
  }
  report["files"] = json::array();
  for (bias_results const& f : files) report["files"].push_back(bias_json(r, f));
  report["trend"] = trend_json(r, files);
  return report;
}

void run_bias(bias_request const& r) {
  const attention_schedule schedule = r.attention.chosen_schedule();
  if (!r.html_path.empty() && r.files.size() > 1) throw std::invalid_argument(fmt::format("--html: a page is of one file, found {}: expected --csv for several", r.files.size()));
  require_separate_files(r.files, {r.json_path, r.csv_path, r.html_path});
  pending_files outputs(r);
  std::vector<bias_results> files;
  for (std::string const& path : r.files) files.push_back(measure(r, path, schedule));
  outputs.write(r.json_path.empty() ? std::string() : whole_json(r, files, schedule).dump(2) + "\n", r.csv_path.empty() ? std::string() : bias_csv(r, files, schedule),
                r.html_path.empty() ? std::string() : bias_page(r, files.front(), schedule));
  if (files.size() == 1) print_bias(r, files.front(), schedule);
  else print_trend(r, files, schedule);
}

}  // namespace

bool bias_request::wants(std::string_view name) const { return tensors.empty() || std::ranges::find(tensors, name) != tensors.end(); }

bool bias_request::wants_gradients() const {
  return std::ranges::any_of(gradient_tensors, [&](gradient_tensor const& t) { return wants(t.name); });
}

call_errors bias_results::errors(bias_request const& request) const {
  call_errors all{.output = o, .gradients = gradients};
  if (!all.gradients) return all;
  for (gradient_tensor const& t : gradient_tensors)
    if (!request.wants(t.name)) (*all.gradients).*t.error = tensor_error{};
  return all;
}

void add_bias(CLI::App& program, int& status) {
  auto r = std::make_shared<bias_request>();
  CLI::App* command = program.add_subcommand("bias",
                                             "signed error against the exact value of O, delta, dP, dS, dQ, dK, dV, early warnings and a risk report in plain words; several files give a trend");
  command->add_option("FILE", r->files, "safetensors files with q, k, v (and do) in BF16, in the order of training")->required();
  r->attention.add_schedule(*command);
  command->add_option("--tensors", r->tensors, "which tensors, comma between (default: all that there are)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"o", "delta", "dp", "ds", "dq", "dk", "dv"}));
  command->add_flag("--attribute", r->attribute, "which rounding of the kernel makes which part of each error");
  command->add_flag("--no-report", r->no_report, "no risk report at the end, and no fixes tried");
  command->add_option("--json", r->json_path, "JSON file to write");
  command->add_option("--html", r->html_path, "HTML file to write, of one file: one page with pictures that needs no network; with --attribute also by rounding point");
  command->add_option("--csv", r->csv_path, "CSV file to write: a line for each file and tensor or warning");
  command->callback([r, &status] {
    run_bias(*r);
    status = 0;
  });
}

}  // namespace stickybit::cli
