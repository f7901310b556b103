#include <cmath>

#include "bias.hpp"
#include "json_number.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

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

json attribution_json(tensor_attribution const& a) {
  json points = json::array();
  for (attributed_point const& b : a.points)
    points.push_back({{"rounding_point", b.name},
                      {"mean_signed_error_ulp", b.mean_signed_error_ulp},
                      {"standard_error_ulp", b.standard_error_ulp},
                      {"rms_error_ulp", b.rms_error_ulp},
                      {"alone_mean_signed_error_ulp", b.alone_mean_signed_error_ulp},
                      {"without_mean_signed_error_ulp", b.without_mean_signed_error_ulp},
                      {"along_direction_ulp", b.along_direction},
                      {"alone_along_direction_ulp", b.alone_along_direction},
                      {"without_along_direction_ulp", b.without_along_direction}});
  return points;
}

json warnings_json(early_warnings const& w) {
  json values = json::object(), raised = json::array();
  for (warning_description const& d : warning_descriptions()) {
    values[std::string(d.name)] = {{"value", json_number(w.value(d.kind))}, {"limit", json_number(d.limit)}, {"raised", w.raised(d.kind)}};
    if (w.raised(d.kind)) raised.push_back(d.name);
  }
  return {{"values", values},
          {"raised", raised},
          {"rows", w.rows},
          {"rows_without_keys", w.rows_without_keys},
          {"rows_undetermined", w.rows_undetermined},
          {"rows_of_one_key", w.rows_of_one_key},
          {"rows_without_gradient", w.rows_without_gradient},
          {"key_mean_over_spread_by_head", w.key_mean_by_head}};
}

json tried_json(tried_fix const& t) {
  return {{"fix", t.fix}, {"after", json_number(t.after.value)}, {"after_standard_error", t.after.error}, {"effect", name_of(t.effect)}, {"worsens", t.worsens}};
}

json finding_json(finding const& f) {
  json one{{"tensor", f.tensor},
           {"kind", name_of(f.kind)},
           {"direction", f.direction > 0 ? "high" : f.direction < 0 ? "low" : "either"},
           {"before", json_number(f.before.value)},
           {"before_standard_error", f.before.error},
           {"standard_errors", json_number(f.significance)},
           {"small", f.small},
           {"cause", f.cause},
           {"effect", name_of(f.effect)},
           {"fix", f.best.fix.empty() ? json() : json(f.best.fix)},
           {"tried", json::array()}};
  if (f.kind == finding_kind::columns) one.update({{"columns", f.of_columns}, {"largest_column_ulp", f.largest_column}});
  if (f.has_floor) one["rounded_once"] = json_number(f.floor.value);
  if (!f.best.fix.empty()) one.update({{"after", json_number(f.best.after.value)}, {"after_standard_error", f.best.after.error}, {"worsens", f.best.worsens}});
  for (tried_fix const& t : f.tried) one["tried"].push_back(tried_json(t));
  return one;
}

json report_json(risk_report const& r) {
  json report{{"tensors", r.tensors}, {"limit_standard_errors", r.limit}, {"findings", json::array()}, {"unbiased", json::array()}, {"sentences", r.sentences}};
  for (finding const& f : r.findings) report["findings"].push_back(finding_json(f));
  for (unbiased_tensor const& u : r.unbiased) report["unbiased"].push_back({{"tensor", u.tensor}, {"detectable_ulp", json_number(u.detectable_ulp)}});
  return report;
}

void add_prediction(bias_results const& results, std::string_view tensor, json& one) {
  const auto found = results.predicted.find(tensor);
  if (found == results.predicted.end()) return;
  one["predicted_mean_ulp"] = json_number(found->second.mean_ulp);
  one["predicted_standard_error_ulp"] = json_number(found->second.standard_error_ulp);
}

json output_json(bias_results const& results) {
  json o = tensor_json(results.o->o);
  o.update(lists_json(results.o->o));
  add_prediction(results, "o", o);
  if (results.by_point) {
    o["attribution"] = attribution_json(*results.by_point);
    o["attribution_counted"] = results.by_point->counted;
  }
  if (!results.no_attribution.empty()) o["attribution_unavailable"] = results.no_attribution;
  return o;
}

json gradient_json(bias_results const& results, gradient_tensor const& t) {
  json one = tensor_json((*results.gradients).*t.error);
  if (t.listed) one.update(lists_json((*results.gradients).*t.error));
  add_prediction(results, t.name, one);
  if (results.gradients_by_point) {
    one["attribution"] = attribution_json((*results.gradients_by_point).*t.attribution);
    one["attribution_counted"] = ((*results.gradients_by_point).*t.attribution).counted;
  }
  if (!results.no_gradient_attribution.empty()) one["attribution_unavailable"] = results.no_gradient_attribution;
  return one;
}

}  // namespace

json bias_json(bias_request const& r, bias_results const& results) {
  json report{{"file", results.file}, {"tensors", json::object()}, {"early_warnings", warnings_json(results.warnings)}};
  if (results.o) {
    report["rows_without_keys"] = results.o->rows_without_keys;
    report["tensors"]["o"] = output_json(results);
  }
  if (!results.no_prediction.empty()) report["prediction_unavailable"] = results.no_prediction;
  if (!results.no_gradients.empty()) report["gradients_unavailable"] = results.no_gradients;
  if (results.report) report["risk_report"] = report_json(*results.report);
  else
    for (finding const& f : find_risks(results.errors(r))) report["found"].push_back(finding_json(f));
  if (!results.gradients) return report;
  report["rows_without_keys"] = results.gradients->rows_without_keys;
  for (gradient_tensor const& t : gradient_tensors)
    if (r.wants(t.name)) report["tensors"][std::string(t.name)] = gradient_json(results, t);
  return report;
}

}  // namespace stickybit::cli
