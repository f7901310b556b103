#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bias.hpp"
#include "explain.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/figure/bar_chart.hpp"
#include "stickybit/figure/heat_map.hpp"

// One file's bias as a page, from the same parts as the pages of `explain`.

namespace stickybit::cli {
namespace {

using figure::page_figure;
using figure::prose;

struct tensor_of_page {
  std::string_view name, label;
  tensor_error const* error;
  tensor_attribution const* attribution;  ///< null where there is none
};

std::vector<tensor_of_page> tensors_of(bias_request const& r, bias_results const& results) {
  std::vector<tensor_of_page> all;
  if (results.o) all.push_back({"o", "O", &results.o->o, results.by_point ? &*results.by_point : nullptr});
  if (!results.gradients) return all;
  for (gradient_tensor const& t : gradient_tensors)
    if (r.wants(t.name)) all.push_back({t.name, t.label, &((*results.gradients).*t.error), results.gradients_by_point ? &((*results.gradients_by_point).*t.attribution) : nullptr});
  return all;
}

std::string number(double x) { return std::isnan(x) ? std::string("-") : fmt::format("{:.4g}", x); }
std::string signed_number(double x) { return std::isnan(x) ? std::string("-") : fmt::format("{:+.4g}", x); }

figure::table overview(std::vector<tensor_of_page> const& tensors, bias_results const& results) {
  figure::table t{.caption = "Signed error, value less exact, in ulp",
                  .head = {"tensor", "mean", "± over rows", "predicted", "rms", "row error", "too high", "too low"},
                  .rows = {}};
  for (tensor_of_page const& x : tensors) {
    tensor_error const& e = *x.error;
    const auto predicted = results.predicted.find(x.name);
    t.rows.push_back({std::string(x.label), signed_number(e.mean_signed_error_ulp), number(e.standard_error_ulp),
                      predicted == results.predicted.end() ? std::string("-") : fmt::format("{:+.4g} ± {:.2g}", predicted->second.mean_ulp, predicted->second.standard_error_ulp), number(e.rms_error_ulp),
                      e.counted == 0 || std::isnan(e.median_relative_error) ? std::string("-") : fmt::format("{:.3g}%", 100 * e.median_relative_error), std::to_string(e.positive), std::to_string(e.negative)});
  }
  return t;
}

/// Mean signed errors in units of their own root mean square, so that all tensors fit one scale.
figure::scene means_picture(std::vector<tensor_of_page> const& tensors) {
  figure::bar_chart_data data{.title = "How biased each tensor is", .value_name = "mean signed error over its rms", .unit = "", .bars = {}};
  for (tensor_of_page const& x : tensors)
    if (x.error->counted != 0 && x.error->rms_error_ulp > 0)
      data.bars.push_back({.name = std::string(x.label), .value = x.error->mean_signed_error_ulp / x.error->rms_error_ulp, .standard_error = x.error->standard_error_ulp / x.error->rms_error_ulp});
  return figure::bar_chart(data);
}

figure::scene columns_picture(tensor_of_page const& x) {
  const std::int64_t columns = x.error->columns.back().column + 1, heads = std::ssize(x.error->columns) / columns;
  std::vector<double> means;
  for (column_error const& c : x.error->columns) means.push_back(c.mean_ulp);
  return figure::heat_map({.title = fmt::format("Mean signed error of {} by column", x.label), .row_name = "head", .column_name = fmt::format("column of {}", x.label), .unit = "ulp", .rows = heads, .columns = columns, .values = means});
}

figure::section section_of(tensor_of_page const& x, bias_results const& results) {
  figure::section s{std::string(x.label), {}};
  if (x.attribution && !x.attribution->points.empty())
    s.contents.emplace_back(page_figure{attribution_picture(*x.attribution, std::string(x.label)), "Each rounding point's part of the mean, and its own root mean square beside it. A part that is far from zero in its own root mean square is systematic."});
  if (const auto map = results.maps.find(x.name); map != results.maps.end())
    s.contents.emplace_back(page_figure{map_picture(map->second.map, x.name, map->second.head), "Errors of the head with the most biased column. Without bias they look like noise; stripes along a column are a bias that adds up over rows, stripes along a row are one weight's or one sum's."});
  if (x.error->columns.size() > 1 && x.error->columns.back().column > 0)
    s.contents.emplace_back(page_figure{columns_picture(x), "The mean over rows of each column of each head."});
  return s;
}

figure::section warnings_section(early_warnings const& warnings) {
  figure::table t{.caption = "Numbers that tell of trouble before it comes. Those with a limit are judged by it.", .head = {"warning", "value", "limit", "verdict", "what it means"}, .rows = {}};
  for (warning_description const& d : warning_descriptions()) {
    const double value = warnings.value(d.kind);
    if (std::isnan(value)) continue;
    t.rows.push_back({std::string(d.title), number(value), number(d.limit), warnings.raised(d.kind) ? "raised" : std::isnan(d.limit) ? "-" : "below", std::string(d.meaning)});
  }
  return {"Early warnings", {std::move(t)}};
}

}  // namespace

std::string bias_page(bias_request const& r, bias_results const& results, attention_schedule const& schedule) {
  const std::vector<tensor_of_page> tensors = tensors_of(r, results);
  const std::string file = std::filesystem::path(results.file).filename().string();
  figure::page p{.title = fmt::format("Bias of {}{} on {}", schedule.name, r.attention.fix == "none" ? "" : " with " + r.attention.fix, file),
                 .summary = fmt::format("{}. Every value is compared with the mathematical one; what is left after averaging over rows is bias.", results.shape),
                 .sections = {},
                 .footer = made_by(fmt::format("{}, schedule {}, unit {}, fix {}", file, schedule.name, schedule.unit, r.attention.fix))};
  if (results.report) {
    figure::section s{"What is wrong, and what would help", {}};
    for (std::string const& sentence : results.report->sentences) s.contents.emplace_back(prose{sentence});
    p.sections.push_back(std::move(s));
  }
  figure::section all{"The tensors",
                      {prose{"BF16 ulp for O, dS, dQ, dK and dV, FP32 ulp for delta and dP. The row error is the median over rows of |value - exact| / |exact|; predicted is the mean that is expected without emulating anything."},
                       overview(tensors, results)}};
  if (!tensors.empty()) all.contents.emplace_back(page_figure{means_picture(tensors), "The mean signed error of each tensor in its own root mean square, with twice its standard error. Far from zero: the errors have one sign."});
  for (std::string const& why : {results.no_gradients, results.no_attribution, results.no_gradient_attribution, results.no_prediction})
    if (!why.empty()) all.contents.emplace_back(prose{"Not there: " + why + "."});
  p.sections.push_back(std::move(all));
  for (tensor_of_page const& x : tensors)
    if (figure::section s = section_of(x, results); !s.contents.empty()) p.sections.push_back(std::move(s));
  p.sections.push_back(warnings_section(results.warnings));
  return to_html(p);
}

void take_maps(bias_request const& r, attention_schedule const& schedule, attention_problem const& problem, engine how, bias_results& results) {
  terminal_progress bar("maps");
  const forward_result forward = attention_forward(schedule, problem, how, bar.report());
  const auto take = [&](std::string_view name, tensor_error const& e, std::vector<bf16_code> const& codes) {
    if (!r.wants(name) || e.columns.empty()) return;
    const auto significance = [](column_error const& c) { return c.standard_error_ulp > 0 ? std::fabs(c.mean_ulp) / c.standard_error_ulp : 0; };
    const auto worst = std::ranges::max_element(e.columns, [&](column_error const& x, column_error const& y) { return significance(x) < significance(y); });
    const std::int64_t heads = name == "dk" || name == "dv" ? problem.key_heads : problem.heads;
    results.maps.emplace(name, mapped_head{worst->head % heads, map_errors(schedule, problem, name, codes, worst->head / heads, worst->head % heads)});
  };
  if (results.o) take("o", results.o->o, forward.o);
  if (!results.gradients) return;
  const backward_result g = attention_backward(schedule, problem, forward, {.how = how, .report = {}, .scores = {}, .dq_parts = {}, .dq_order = {}});
  take("dq", results.gradients->dq, g.dq);
  take("dk", results.gradients->dk, g.dk);
  take("dv", results.gradients->dv, g.dv);
}

}  // namespace stickybit::cli
