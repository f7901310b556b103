#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "stickybit/bias/call_forecast.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

struct predict_request {
  attention_options attention;
  std::string json_path;
};

/// A column of a head, and what is predicted for it.
struct named_column {
  std::string_view tensor;
  std::int64_t head, column;
  expected_mean expected;

  [[nodiscard]] double significance() const {
    const double se = expected.standard_error();
    return se == 0 ? 0 : std::fabs(expected.mean) / se;
  }
};

std::vector<named_column> columns_of(std::vector<forecast> const& all) {
  std::vector<named_column> columns;
  const auto take = [&](std::string_view tensor, std::int64_t head, expected_matrix const& m) {
    for (std::size_t c = 0; c < m.by_column.size(); ++c)
      if (m.by_column[c].ulp != 0) columns.push_back({tensor, head, std::int64_t(c), m.by_column[c]});
  };
  std::int64_t head = 0;
  for (std::size_t key_head = 0; key_head < all.size(); ++key_head) {
    for (head_forecast const& h : all[key_head].heads) {
      take("o", head, h.o);
      take("dq", head++, h.dq);
    }
    take("dk", std::int64_t(key_head), all[key_head].dk);
    take("dv", std::int64_t(key_head), all[key_head].dv);
  }
  return columns;
}

void print_forecast(attention_schedule const& schedule, std::vector<forecast> const& all) {
  fmt::print("predicted for {}, nothing emulated: mean signed error in ulp (BF16; delta, dP: FP32)\n", schedule.name);
  for (tensor_forecast const& t : summarize(all)) {
    fmt::print("  {:<6} {:>+11.4g} ± {:<9.2g} over {} {}", t.tensor, t.mean_ulp, t.standard_error_ulp, t.units, t.tensor == "delta" || t.tensor == "dp" || t.tensor == "ds" ? "rows" : "columns");
    if (t.not_normal != 0) fmt::print("; {} of them hang on a few roundings, their standard error says little", t.not_normal);
    fmt::print("\n");
  }
  std::vector<named_column> columns = columns_of(all);
  const auto biased = std::partition(columns.begin(), columns.end(), [](named_column const& c) { return c.significance() > 5; });
  std::sort(columns.begin(), biased, [](named_column const& a, named_column const& b) { return std::fabs(a.expected.mean) / a.expected.ulp > std::fabs(b.expected.mean) / b.expected.ulp; });
  fmt::print("columns beyond five standard errors: {} of {}\n", biased - columns.begin(), columns.size());
  for (auto c = columns.begin(); c != biased && c != columns.begin() + std::min<std::ptrdiff_t>(5, biased - columns.begin()); ++c)
    fmt::print("  {} head {:>3} column {:>3}: {:+.4g} ± {:.2g} ulp\n", c->tensor, c->head, c->column, c->expected.mean / c->expected.ulp, c->expected.standard_error() / c->expected.ulp);
}

json forecast_json(std::vector<forecast> const& all) {
  json tensors = json::object();
  for (tensor_forecast const& t : summarize(all))
    tensors[std::string(t.tensor)] = {{"predicted_mean_ulp", t.mean_ulp}, {"predicted_standard_error_ulp", t.standard_error_ulp}, {"units", t.units}, {"not_normal", t.not_normal}};
  for (named_column const& c : columns_of(all))
    tensors[std::string(c.tensor)]["columns"].push_back({{"head", c.head},
                                                         {"column", c.column},
                                                         {"predicted_mean_ulp", c.expected.mean / c.expected.ulp},
                                                         {"predicted_standard_error_ulp", c.expected.standard_error() / c.expected.ulp},
                                                         {"expected_jumps", c.expected.expected_jumps()},
                                                         {"normal", c.expected.is_normal()}});
  return tensors;
}

void run_predict(predict_request const& r) {
  require_separate_files({r.attention.file}, {r.json_path});
  const tensor_file file = tensor_file::load(r.attention.file);
  const attention_problem problem = read_problem(file, r.attention.overrides());
  const attention_schedule schedule = r.attention.chosen_schedule();
  terminal_progress bar("prediction");
  const std::vector<forecast> all = forecast_call(schedule, problem, bar.report());
  if (!r.json_path.empty()) {
    const json report{{"version", STICKYBIT_VERSION}, {"file", r.attention.file}, {"schedule", schedule.name}, {"fix", r.attention.fix}, {"tensors", forecast_json(all)}};
    output_file out(r.json_path);
    out.write(report.dump(2) + "\n");
    out.commit();
  }
  print_forecast(schedule, all);
  if (problem.d_o.empty()) fmt::print("no gradients: the file has no tensor 'do'\n");
  else if (!predicts_gradients(schedule)) fmt::print("no gradients: not predicted for {}\n", schedule.name);
}

}  // namespace

void add_predict(CLI::App& program, int& status) {
  auto r = std::make_shared<predict_request>();
  CLI::App* command = program.add_subcommand("predict", "expected signed error of O, delta, dP, dS, dQ, dK, dV from q, k, v, do and the schedule's rules, without emulating");
  r->attention.add_to(*command);
  command->add_option("--json", r->json_path, "JSON file to write");
  command->callback([r, &status] {
    run_predict(*r);
    status = 0;
  });
}

}  // namespace stickybit::cli
