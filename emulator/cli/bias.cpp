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

json tensor_json(tensor_error const& e) {
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
          {"row_sign_test", e.row_sign_test},
          {"columns", columns},
          {"rows", rows}};
}

json report_json(output_bias const& bias, attribution_report const& by_point) {
  json o = tensor_json(bias.o);
  if (by_point.by_point) {
    o["attribution"] = attribution_json(*by_point.by_point);
    o["attribution_counted"] = by_point.by_point->counted;
  }
  if (!by_point.reason.empty()) o["attribution_unavailable"] = by_point.reason;
  return {{"version", STICKYBIT_VERSION}, {"rows_without_keys", bias.rows_without_keys}, {"tensors", {{"o", o}}}};
}

}  // namespace

void add_bias(CLI::App& program, int& status) {
  struct options {
    attention_options attention;
    std::string json_path;
    bool attribute = false;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = program.add_subcommand("bias", "signed error of O against its exact value, by column, by row and by rounding point");
  o->attention.add_to(*command);
  command->add_flag("--attribute", o->attribute, "which rounding of the kernel makes which part of the error");
  command->add_option("--json", o->json_path, "JSON file to write");
  command->callback([o, &status] {
    const attention_problem problem = read_problem(tensor_file::load(o->attention.file), o->attention.overrides());
    const attention_schedule schedule = o->attention.chosen_schedule();
    const engine how = engine_named(o->attention.engine_name);
    const output_bias bias = [&] {
      terminal_progress bar("bias");
      return bias_of_output(schedule, problem, how, bar.report());
    }();
    const attribution_report by_point = o->attribute ? attribute(schedule, problem, bias.o, how) : attribution_report{};
    if (!o->json_path.empty()) {
      json report = report_json(bias, by_point);
      report.update({{"file", o->attention.file}, {"schedule", schedule.name}, {"unit", schedule.unit}, {"fix", o->attention.fix}});
      output_file out(o->json_path);
      out.write(report.dump(2) + "\n");
      out.commit();
    }
    print_report(bias, schedule, problem);
    print_attribution(by_point, bias.o);
    status = 0;
  });
}

}  // namespace stickybit::cli
