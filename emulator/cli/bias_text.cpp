#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "bias.hpp"

namespace stickybit::cli {
namespace {

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

void print_output(bias_results const& results, attention_schedule const& schedule) {
  tensor_error const& e = results.o->o;
  fmt::print("O of {}: {}; value - exact, in BF16 ulp\n", schedule.name, results.shape);
  fmt::print("mean signed error {:+.5f} ± {:.5f} ulp (standard error over rows; columns correlate by {:.2g})\n", e.mean_signed_error_ulp, e.standard_error_ulp,
             e.column_correlation);
  fmt::print("rms error {:.4f} ulp; median relative error of a row {:.4g}; {} elements too high, {} too low; sign test over row means p = {:.2g}\n", e.rms_error_ulp,
             e.median_relative_error, e.positive, e.negative, e.row_sign_test);
  fmt::print("counted {} elements", e.counted);
  if (e.not_finite != 0) fmt::print("; {} left out (infinite, NaN, or a row without keys)", e.not_finite);
  if (results.o->rows_without_keys != 0) fmt::print("; {} rows without keys", results.o->rows_without_keys);
  if (e.exact_zeros != 0) fmt::print("; {} exact zeros", e.exact_zeros);
  fmt::print("\n");
  if (e.counted == 0) return;
  print_columns(e, results.heads);
  print_rows(e);
}

void print_points(tensor_attribution const& a) {
  fmt::print("  {:<13} {:>10} {:>11} {:>10} {:>10} {:>10} {:>10}\n", "", "share", "± over rows", "rms", "alone", "without", "along");
  for (attributed_point const& b : a.points)
    fmt::print("  {:<13} {:>+10.2g} {:>11.1g} {:>10.2g} {:>+10.2g} {:>+10.2g} {:>+10.2g}\n", b.name, b.mean_signed_error_ulp, b.standard_error_ulp, b.rms_error_ulp, b.alone_mean_signed_error_ulp,
               b.without_mean_signed_error_ulp, b.along_direction);
  fmt::print("  {:<13} {:>+10.2g} {:>11} {:>10.2g} {:>10} {:>10} {:>+10.2g}\n", "total", a.mean_signed_error_ulp, "", a.rms_error_ulp, "", "", a.along_direction);
}

void print_attribution(bias_results const& results) {
  if (!results.no_attribution.empty()) fmt::print("{}\n", results.no_attribution);
  if (!results.by_point) return;
  fmt::print("by rounding point (shares add up to the total; alone: only this point rounds; without: every point but this one; along: the part along dO):\n");
  print_points(*results.by_point);
  if (results.by_point->counted != results.o->o.counted)
    fmt::print("  {} of {} elements: the others are infinite or NaN with some points exact\n", results.by_point->counted, results.o->o.counted);
}

void print_gradient_attribution(bias_request const& r, bias_results const& results) {
  if (!results.no_gradient_attribution.empty()) fmt::print("{}\n", results.no_gradient_attribution);
  if (!results.gradients_by_point) return;
  fmt::print("gradients by rounding point (along: the part along what a common error of delta makes of the tensor, in ulp):\n");
  for (gradient_tensor const& t : gradient_tensors) {
    if (!r.wants(t.name)) continue;
    fmt::print(" {}\n", t.label);
    print_points((*results.gradients_by_point).*t.attribution);
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
    const std::string row_error = std::isnan(relative) ? std::string("none") : relative > 0.01 ? fmt::format("{:.3g}%", 100 * relative) : fmt::format("{:.3g}", relative);
    fmt::print("  {:<6} {:>+11.3g} ± {:<10.2g} {:>9.3g} {:>13} {:>10} {:>10} {:>10.2g}", t.label, e.mean_signed_error_ulp, e.standard_error_ulp, e.rms_error_ulp, row_error,
               e.positive, e.negative, e.row_sign_test);
    if (e.not_finite != 0) fmt::print("; {} elements left out", e.not_finite);
    if (e.rows_left_out != 0) fmt::print("; {} rows without a relative error", e.rows_left_out);
    fmt::print("\n");
  }
  fmt::print("  row error: median over rows of |value - exact| / |exact|; sign test: of the rows' means\n");
}

void print_predictions(bias_results const& results) {
  if (!results.no_prediction.empty()) fmt::print("{}\n", results.no_prediction);
  if (results.predicted.empty()) return;
  fmt::print("predicted without emulation, mean signed error in ulp:");
  for (std::string_view tensor : bias_tensors)
    if (const auto found = results.predicted.find(tensor); found != results.predicted.end()) fmt::print("  {} {:+.4g} ± {:.2g}", tensor, found->second.mean_ulp, found->second.standard_error_ulp);
  fmt::print("\n");
}

/// A sentence, broken at blanks; the first line begins with a dash.
void print_wrapped(std::string_view sentence) {
  constexpr std::size_t width = 140;
  std::string_view lead = "  - ";
  while (!sentence.empty()) {
    std::size_t end = sentence.size() <= width ? sentence.size() : sentence.rfind(' ', width);
    if (end == sentence.npos) end = std::min(sentence.size(), sentence.find(' ', width));
    fmt::print("{}{}\n", lead, sentence.substr(0, end));
    sentence.remove_prefix(std::min(sentence.size(), end + 1));
    lead = "    ";
  }
}

}  // namespace

void print_bias(bias_request const& r, bias_results const& results, attention_schedule const& schedule) {
  if (results.o) print_output(results, schedule);
  print_attribution(results);
  print_gradients(r, results, schedule);
  print_gradient_attribution(r, results);
  print_predictions(results);
  if (!results.report) return;
  fmt::print("risk report\n");
  for (std::string const& sentence : results.report->sentences) print_wrapped(sentence);
}

}  // namespace stickybit::cli
