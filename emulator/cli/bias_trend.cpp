#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "bias.hpp"
#include "stickybit/bias/trend.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

/// A number that is followed over the files.
struct quantity {
  std::string name, title;
  std::vector<double> values;  ///< by file; NaN where there is none
  std::vector<bool> marked;    ///< beyond its limit
  bool shown = true;           ///< in the table
  std::function<std::string(double)> text;
};

std::string short_percent(double x) {
  return x >= 0.1 ? fmt::format("{:.0f}%", 100 * x) : x >= 0.01 || x == 0 ? fmt::format("{:.1f}%", 100 * x) : fmt::format("{:.3f}%", 100 * x);
}

std::string_view title_of(warning_kind kind) {
  switch (kind) {
    case warning_kind::repeated_maxima: return "maxima";
    case warning_kind::key_mean_over_spread: return "key mean";
    case warning_kind::exponent_ulp: return "exp ulp";
    case warning_kind::rows_at_one: return "P = 1";
    case warning_kind::row_mass_over_dq: return "row mass";
    case warning_kind::delta_mismatch: return "delta";
    default: return {};
  }
}

void add_warnings(std::vector<bias_results> const& files, std::vector<quantity>& all) {
  for (warning_description const& d : warning_descriptions()) {
    quantity q{.name = std::string(d.name), .title = std::string(title_of(d.kind)), .values = {}, .marked = {}, .shown = !std::isnan(d.limit), .text = {}};
    if (d.unit == "share" || d.unit == "relative") q.text = short_percent;
    else q.text = [](double x) { return fmt::format("{:.2g}", x); };
    for (bias_results const& f : files) {
      q.values.push_back(f.warnings.value(d.kind));
      q.marked.push_back(f.warnings.raised(d.kind));
    }
    all.push_back(std::move(q));
  }
}

bool is_found(std::vector<finding> const& findings, std::string_view tensor, bool rows) {
  return std::ranges::any_of(findings, [&](finding const& f) { return f.tensor == tensor && (f.kind == finding_kind::rows) == rows && f.kind != finding_kind::columns && !f.small; });
}

/// Means of every tensor, and row errors of those that are judged by them; shown where some file has a finding.
void add_tensors(bias_request const& r, std::vector<bias_results> const& files, std::vector<quantity>& all) {
  for (bool rows : {false, true})
    for (std::string_view tensor : bias_tensors) {
      if (!r.wants(tensor) || (rows && (tensor == "delta" || tensor == "dp" || tensor == "ds"))) continue;
      const std::string label = tensor == "o" ? "O" : tensor == "delta" ? "delta" : fmt::format("d{}", char(tensor[1] - 'a' + 'A'));
      quantity q{.name = fmt::format("{}_{}", tensor, rows ? "median_relative_error" : "mean_signed_error_ulp"), .title = fmt::format("{} {}", label, rows ? "rows" : "mean"), .values = {},
                 .marked = {}, .shown = false, .text = {}};
      if (rows) q.text = short_percent;
      else q.text = [](double x) { return fmt::format("{:+.2g}", x); };
      for (bias_results const& f : files) {
        const call_errors errors = f.errors(r);
        tensor_error const* e = errors.find(tensor);
        q.values.push_back(e == nullptr ? std::nan("") : rows ? e->median_relative_error : e->mean_signed_error_ulp);
        q.marked.push_back(is_found(find_risks(errors), tensor, rows));
        q.shown = q.shown || q.marked.back() || (rows && tensor != "dv" && tensor != "o" && e != nullptr);
      }
      all.push_back(std::move(q));
    }
}

std::vector<quantity> quantities(bias_request const& r, std::vector<bias_results> const& files) {
  std::vector<quantity> all;
  add_warnings(files, all);
  add_tensors(r, files, all);
  return all;
}

/// Growth is of the size: a mean that goes further below 0 grows.
trend growth_of(quantity const& q) {
  std::vector<double> sizes = q.values;
  for (double& x : sizes) x = std::fabs(x);
  return trend_of(sizes);
}

std::string_view arrow(trend const& t) {
  if (t.count < 2 || t.score == 0) return "-";
  if (t.score == t.pairs) return "⇑";
  if (t.score == -t.pairs) return "⇓";
  return t.score > 0 ? "↑" : "↓";
}

std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_number(double x) { return std::isnan(x) ? std::string() : fmt::format("{}", x); }

}  // namespace

json trend_json(bias_request const& r, std::vector<bias_results> const& files) {
  json list = json::array();
  for (quantity const& q : quantities(r, files)) {
    const trend t = growth_of(q);
    json values = json::array();
    for (double x : q.values) values.push_back(std::isfinite(x) ? json(x) : json());
    list.push_back({{"name", q.name}, {"values", values}, {"score", t.score}, {"pairs", t.pairs}, {"p", t.p}, {"direction", t.score > 0 ? "grows" : t.score < 0 ? "shrinks" : "neither"}});
  }
  return list;
}

void print_trend(bias_request const& r, std::vector<bias_results> const& files, attention_schedule const& schedule) {
  const std::vector<quantity> all = quantities(r, files);
  std::size_t width = 4;
  for (bias_results const& f : files) width = std::max(width, std::filesystem::path(f.file).filename().string().size());
  const auto cell = [](std::string_view text, std::size_t shown) { return std::string(shown < 10 ? 10 - shown : 1, ' ') + std::string(text); };
  const auto line = [&](std::string_view name, auto&& text) {
    fmt::print("{:<{}}", name, width);
    for (quantity const& q : all)
      if (q.shown) {
        const auto [value, shown] = text(q);
        fmt::print("{}", cell(value, shown));
      }
    fmt::print("\n");
  };
  const auto ascii = [](std::string text) { return std::pair(text, text.size()); };
  fmt::print("early warnings and biases of {} over {} files ('!': beyond its limit; means in ulp)\n", schedule.name, files.size());
  line("file", [&](quantity const& q) { return ascii(q.title + " "); });
  for (std::size_t i = 0; i < files.size(); ++i)
    line(std::filesystem::path(files[i].file).filename().string(),
         [&](quantity const& q) { return ascii((std::isnan(q.values[i]) ? "-" : q.text(q.values[i])) + (q.marked[i] ? "!" : " ")); });
  line("limit", [&](quantity const& q) {
    for (warning_description const& d : warning_descriptions())
      if (d.name == q.name) return ascii(q.text(d.limit) + " ");
    return ascii(q.name.ends_with("relative_error") ? "1.0% " : " ");
  });
  line("trend", [&](quantity const& q) { return std::pair(std::string(arrow(growth_of(q))) + " ", std::size_t{2}); });
  line("p", [&](quantity const& q) { return ascii(fmt::format("{:.2g} ", growth_of(q).p)); });
  fmt::print("trend of the size over the files as given: ⇑ ⇓ every one beyond the one before, ↑ ↓ mostly; p: chance of so much order in a random one (Mann and Kendall, one side)\n");
}

std::string bias_csv(bias_request const& r, std::vector<bias_results> const& files, attention_schedule const& schedule) {
  std::string csv = "index,file,schedule,fix,kind,name,value,standard_error,rms,median_relative_error,unit,limit,raised\n";
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string lead = fmt::format("{},{},{},{}", i, csv_text(files[i].file), schedule.name, csv_text(r.attention.fix));
    for (warning_description const& d : warning_descriptions())
      csv += fmt::format("{},warning,{},{},,,,{},{},{}\n", lead, d.name, csv_number(files[i].warnings.value(d.kind)), d.unit, csv_number(d.limit), int(files[i].warnings.raised(d.kind)));
    const call_errors errors = files[i].errors(r);
    const std::vector<finding> findings = find_risks(errors);
    const std::int64_t tensors = std::ranges::count_if(bias_tensors, [&](std::string_view t) { return errors.find(t) != nullptr; });
    for (std::string_view tensor : bias_tensors)
      if (tensor_error const* e = errors.find(tensor))
        csv += fmt::format("{},tensor,{},{},{},{},{},{},{},{}\n", lead, tensor, csv_number(e->mean_signed_error_ulp), csv_number(e->standard_error_ulp), csv_number(e->rms_error_ulp),
                           csv_number(e->median_relative_error), e->in_ulp_of == format::bf16 ? "bf16_ulp" : "f32_ulp", csv_number(detectable_mean(*e, tensors)),
                           int(is_found(findings, tensor, false) || is_found(findings, tensor, true)));
  }
  return csv;
}

}  // namespace stickybit::cli
