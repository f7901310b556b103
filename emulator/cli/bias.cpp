#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "commands.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

/// One character a column: its mean's height above and below zero, in eighths of the largest.
std::string strip(std::span<column_error const> columns, double largest, bool above) {
  static constexpr std::array<const char*, 9> up{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (column_error const& c : columns) {
    const double height = above ? c.mean_ulp : -c.mean_ulp;
    const int eighths = height <= 0 || largest == 0 ? 0 : std::clamp(int(std::ceil(8 * height / largest)), 1, 8);
    line += up[std::size_t(eighths)];
  }
  return line;
}

double significance(column_error const& c) { return c.standard_error_ulp == 0 ? 0 : c.mean_ulp / c.standard_error_ulp; }

void print_columns(tensor_error const& e, std::int64_t heads_per_batch) {
  double largest = 0;
  for (column_error const& c : e.columns) largest = std::max(largest, std::fabs(c.mean_ulp));
  fmt::print("by column: mean signed error over rows, full height {:.3g} ulp\n", largest);
  const auto per_head = std::size_t(e.columns.empty() ? 0 : e.columns.back().column + 1);
  for (std::size_t first = 0; first < e.columns.size(); first += per_head) {
    const auto head = std::span(e.columns).subspan(first, per_head);
    fmt::print("  batch {} head {:<3} too high  |{}|\n", head.front().head / heads_per_batch, head.front().head % heads_per_batch, strip(head, largest, true));
    fmt::print("                    too low   |{}|\n", strip(head, largest, false));
  }
  std::vector<column_error> worst = e.columns;
  const auto shown = std::min<std::size_t>(5, worst.size());
  std::partial_sort(worst.begin(), worst.begin() + std::ptrdiff_t(shown), worst.end(),
                    [](column_error const& a, column_error const& b) { return std::fabs(significance(a)) > std::fabs(significance(b)); });
  fmt::print("most biased columns:\n");
  for (std::size_t i = 0; i < shown; ++i)
    fmt::print("  head {:>3} column {:>3}: {:+.4f} ± {:.4f} ulp, {} rows too high, {} too low, {} exact, sign test p = {:.2g}\n", worst[i].head, worst[i].column,
               worst[i].mean_ulp, worst[i].standard_error_ulp, worst[i].positive, worst[i].negative, worst[i].zero, worst[i].sign_test);
}

void print_rows(tensor_error const& e) {
  std::vector<row_error> worst = e.rows;
  const auto shown = std::min<std::size_t>(5, worst.size());
  std::partial_sort(worst.begin(), worst.begin() + std::ptrdiff_t(shown), worst.end(),
                    [](row_error const& a, row_error const& b) { return std::fabs(a.mean_ulp) > std::fabs(b.mean_ulp); });
  fmt::print("most biased rows:\n");
  for (std::size_t i = 0; i < shown; ++i)
    fmt::print("  head {:>3} row {:>5}: mean {:+.4f} ulp over columns, relative error {:.3g}\n", worst[i].head, worst[i].row, worst[i].mean_ulp, worst[i].relative);
}

void print_report(output_bias const& bias, attention_schedule const& schedule, attention_problem const& p) {
  tensor_error const& e = bias.o;
  fmt::print("O of {}: {} x {} heads, {} queries, {} keys, d = {}{}; value - exact, in BF16 ulp\n", schedule.name, p.batch, p.heads, p.queries, p.keys, p.head_dim,
             p.causal ? ", causal" : "");
  fmt::print("mean signed error {:+.5f} ± {:.5f} ulp (standard error over rows; columns correlate by {:.2g})\n", e.mean_signed_error_ulp, e.standard_error_ulp,
             e.column_correlation);
  fmt::print("rms error {:.4f} ulp; median relative error of a row {:.4g}; {} elements too high, {} too low; sign test over row means p = {:.2g}\n", e.rms_error_ulp,
             e.median_relative_error, e.positive, e.negative, e.row_sign_test);
  fmt::print("counted {} elements", e.counted);
  if (e.not_finite != 0) fmt::print("; {} left out (infinite, NaN, or a row without keys)", e.not_finite);
  if (bias.rows_without_keys != 0) fmt::print("; {} rows without keys", bias.rows_without_keys);
  if (e.exact_zeros != 0) fmt::print("; {} exact zeros", e.exact_zeros);
  fmt::print("\n");
  if (e.counted == 0) return;
  print_columns(e, p.heads);
  print_rows(e);
}

/// The bias by rounding point, or why there is none; neither where it was not asked for.
struct attribution_report {
  std::optional<output_attribution> by_point;
  std::string reason;
};

attribution_report attribute(attention_schedule const& schedule, attention_problem const& p, tensor_error const& o, engine how) {
  terminal_progress bar("attribution");
  try {
    return {attribute_output(schedule, p, o, how, bar.report()), {}};
  } catch (unsupported_call const& e) {
    return {{}, e.what()};
  }
}

void print_attribution(attribution_report const& report, tensor_error const& o) {
  if (!report.by_point) {
    if (!report.reason.empty()) fmt::print("{}\n", report.reason);
    return;
  }
  output_attribution const& a = *report.by_point;
  fmt::print("by rounding point (shares add up to the total; alone: only this point rounds; without: every point but this one):\n");
  fmt::print("  {:<13} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "", "share", "± over rows", "rms", "alone", "without");
  for (point_bias const& b : a.points)
    fmt::print("  {:<13} {:>+10.2g} {:>11.1g} {:>10.2g} {:>+10.2g} {:>+10.2g}\n", name_of(b.point), b.mean_signed_error_ulp, b.standard_error_ulp, b.rms_error_ulp,
               b.alone_mean_signed_error_ulp, b.without_mean_signed_error_ulp);
  fmt::print("  {:<13} {:>+10.2g} {:>11} {:>10.2g}\n", "total", a.mean_signed_error_ulp, "", a.rms_error_ulp);
  if (a.counted != o.counted) fmt::print("  {} of {} elements: the others are infinite or NaN with some points exact\n", a.counted, o.counted);
}

json attribution_json(output_attribution const& a) {
  json points = json::array();
  for (point_bias const& b : a.points)
    points.push_back({{"rounding_point", name_of(b.point)},
                      {"mean_signed_error_ulp", b.mean_signed_error_ulp},
                      {"standard_error_ulp", b.standard_error_ulp},
                      {"rms_error_ulp", b.rms_error_ulp},
                      {"alone_mean_signed_error_ulp", b.alone_mean_signed_error_ulp},
                      {"without_mean_signed_error_ulp", b.without_mean_signed_error_ulp}});
  return points;
}

json lists_json(tensor_error const& e) {
  json columns = json::array();
  for (column_error const& c : e.columns)
    columns.push_back({{"head", c.head},
                       {"column", c.column},
                       {"mean_signed_error_ulp", c.mean_ulp},
                       {"standard_error_ulp", c.standard_error_ulp},
                       {"positive", c.positive},
                       {"negative", c.negative},
                       {"zero", c.zero},
                       {"sign_test", c.sign_test}});
  json rows = json::array();
  for (row_error const& r : e.rows)
    rows.push_back({{"head", r.head}, {"row", r.row}, {"mean_signed_error_ulp", r.mean_ulp}, {"relative_error", std::isnan(r.relative) ? json() : json(r.relative)}});
  return {{"columns", columns}, {"rows", rows}};
}

json tensor_json(tensor_error const& e) {
  return {{"mean_signed_error_ulp", e.mean_signed_error_ulp},
          {"standard_error_ulp", e.standard_error_ulp},
          {"rms_error_ulp", e.rms_error_ulp},
          {"median_relative_error", std::isnan(e.median_relative_error) ? json() : json(e.median_relative_error)},
          {"rows_left_out", e.rows_left_out},
          {"counted", e.counted},
          {"not_finite", e.not_finite},
          {"exact_zeros", e.exact_zeros},
          {"column_correlation", e.column_correlation},
          {"positive", e.positive},
          {"negative", e.negative},
          {"row_sign_test", e.row_sign_test}};
}

struct bias_request {
  attention_options attention;
  std::vector<std::string> tensors;  ///< empty: O, and the gradients where there are any
  std::string json_path;
  bool attribute = false;

  [[nodiscard]] bool wants(std::string_view name) const { return tensors.empty() || std::find(tensors.begin(), tensors.end(), name) != tensors.end(); }
};

struct gradient_tensor {
  std::string_view name, label;
  tensor_error gradient_bias::*error;
  bool listed;  ///< by column and row in the JSON
};
constexpr std::array gradient_tensors{
    gradient_tensor{"delta", "delta", &gradient_bias::delta, false}, gradient_tensor{"dp", "dP", &gradient_bias::dp, false}, gradient_tensor{"ds", "dS", &gradient_bias::ds, false},
    gradient_tensor{"dq", "dQ", &gradient_bias::dq, true},           gradient_tensor{"dk", "dK", &gradient_bias::dk, true},  gradient_tensor{"dv", "dV", &gradient_bias::dv, true}};

bool wants_gradients(bias_request const& r) {
  return std::any_of(gradient_tensors.begin(), gradient_tensors.end(), [&](gradient_tensor const& t) { return r.wants(t.name); });
}

/// What was asked for and could be had.
struct bias_results {
  std::optional<output_bias> o;
  attribution_report by_point;
  std::optional<gradient_bias> gradients;
  std::string no_gradients;  ///< why there are none
};

/// @throws where gradients are asked for by name and cannot be had
void take_gradients(bias_request const& r, attention_schedule const& schedule, attention_problem const& p, engine how, bias_results& results) {
  if (!wants_gradients(r)) return;
  if (p.d_o.empty() && r.tensors.empty()) {
    results.no_gradients = "the file has no tensor 'do'";
    return;
  }
  terminal_progress bar("bias of gradients");
  try {
    results.gradients = bias_of_gradients(schedule, p, how, bar.report(), r.wants("dp") || r.wants("ds"));
  } catch (unsupported_call const& e) {
    if (!r.tensors.empty()) throw;
    results.no_gradients = e.what();
  }
}

void print_gradients(bias_request const& r, bias_results const& results, attention_schedule const& schedule) {
  if (!results.no_gradients.empty()) fmt::print("no gradients: {}\n", results.no_gradients);
  if (!results.gradients) return;
  fmt::print("gradients of {}, value - exact; ulp: FP32 for delta and dP, BF16 for dS, dQ, dK, dV\n", schedule.name);
  fmt::print("  {:<6} {:>11}   {:<10} {:>9} {:>13} {:>10} {:>10} {:>10}\n", "", "mean signed", "over rows", "rms", "row error", "too high", "too low", "sign test");
  for (gradient_tensor const& t : gradient_tensors) {
    if (!r.wants(t.name)) continue;
    tensor_error const& e = (*results.gradients).*t.error;
    const double relative = e.median_relative_error;
    const std::string row_error = relative > 0.01 ? fmt::format("{:.3g}%", 100 * relative) : fmt::format("{:.3g}", relative);
    fmt::print("  {:<6} {:>+11.3g} ± {:<10.2g} {:>9.3g} {:>13} {:>10} {:>10} {:>10.2g}", t.label, e.mean_signed_error_ulp, e.standard_error_ulp, e.rms_error_ulp, row_error,
               e.positive, e.negative, e.row_sign_test);
    if (e.not_finite != 0) fmt::print("; {} elements left out", e.not_finite);
    if (e.rows_left_out != 0) fmt::print("; {} rows without a relative error", e.rows_left_out);
    fmt::print("\n");
  }
  fmt::print("  row error: median over rows of |value - exact| / |exact|; sign test: of the rows' means\n");
}

json report_json(bias_request const& r, bias_results const& results) {
  json report{{"version", STICKYBIT_VERSION}, {"tensors", json::object()}};
  if (results.o) {
    json o = tensor_json(results.o->o);
    o.update(lists_json(results.o->o));
    if (results.by_point.by_point) {
      o["attribution"] = attribution_json(*results.by_point.by_point);
      o["attribution_counted"] = results.by_point.by_point->counted;
    }
    if (!results.by_point.reason.empty()) o["attribution_unavailable"] = results.by_point.reason;
    report["rows_without_keys"] = results.o->rows_without_keys;
    report["tensors"]["o"] = o;
  }
  if (!results.no_gradients.empty()) report["gradients_unavailable"] = results.no_gradients;
  if (!results.gradients) return report;
  report["rows_without_keys"] = results.gradients->rows_without_keys;
  for (gradient_tensor const& t : gradient_tensors) {
    if (!r.wants(t.name)) continue;
    json one = tensor_json((*results.gradients).*t.error);
    if (t.listed) one.update(lists_json((*results.gradients).*t.error));
    report["tensors"][std::string(t.name)] = one;
  }
  return report;
}

void run_bias(bias_request const& r) {
  if (r.attribute && !r.wants("o")) throw std::invalid_argument("--attribute: it is O that is attributed: expected o among --tensors");
  const tensor_file file = tensor_file::load(r.attention.file);
  const attention_problem problem = read_problem(file, r.attention.overrides());
  if (!r.tensors.empty() && wants_gradients(r)) static_cast<void>(file.require("do", dtype::bf16, problem.output_shape()));
  const attention_schedule schedule = r.attention.chosen_schedule();
  const engine how = engine_named(r.attention.engine_name);
  bias_results results;
  if (r.wants("o")) {
    terminal_progress bar("bias");
    results.o = bias_of_output(schedule, problem, how, bar.report());
  }
  if (r.attribute) results.by_point = attribute(schedule, problem, results.o->o, how);
  take_gradients(r, schedule, problem, how, results);
  if (!r.json_path.empty()) {
    json report = report_json(r, results);
    report.update({{"file", r.attention.file}, {"schedule", schedule.name}, {"unit", schedule.unit}, {"fix", r.attention.fix}});
    output_file out(r.json_path);
    out.write(report.dump(2) + "\n");
    out.commit();
  }
  if (results.o) {
    print_report(*results.o, schedule, problem);
    print_attribution(results.by_point, results.o->o);
  }
  print_gradients(r, results, schedule);
}

}  // namespace

void add_bias(CLI::App& program, int& status) {
  auto r = std::make_shared<bias_request>();
  CLI::App* command =
      program.add_subcommand("bias", "signed error against the exact value: O by column, by row and by rounding point; delta, dP, dS, dQ, dK, dV where the file has 'do'");
  r->attention.add_to(*command);
  command->add_option("--tensors", r->tensors, "which tensors, comma between (default: all that there are)")
      ->delimiter(',')
      ->check(CLI::IsMember({"o", "delta", "dp", "ds", "dq", "dk", "dv"}));
  command->add_flag("--attribute", r->attribute, "which rounding of the kernel makes which part of the error of O");
  command->add_option("--json", r->json_path, "JSON file to write");
  command->callback([r, &status] {
    run_bias(*r);
    status = 0;
  });
}

}  // namespace stickybit::cli
