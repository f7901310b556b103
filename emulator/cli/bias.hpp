#pragma once
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/gradient_attribution.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/bias/risk_report.hpp"
#include "stickybit/bias/warnings.hpp"
#include "stickybit/explain/error_map.hpp"

// `stickybit bias`: bias.cpp takes the options and measures, bias_text.cpp prints one file, bias_json.cpp makes JSON, bias_trend.cpp the
// table and CSV of several files, bias_html.cpp a page.

namespace stickybit::cli {

struct bias_request {
  attention_options attention;  ///< its file is the one in hand
  std::vector<std::string> files;
  std::vector<std::string> tensors;  ///< empty: O, and the gradients where there are any
  std::string json_path, csv_path, html_path;
  bool attribute = false;
  bool no_report = false;

  [[nodiscard]] bool wants(std::string_view name) const;
  [[nodiscard]] bool wants_gradients() const;
  [[nodiscard]] bool wants_report() const { return !no_report && files.size() == 1; }
};

struct gradient_tensor {
  std::string_view name, label;
  tensor_error gradient_bias::*error;
  tensor_attribution gradient_attribution::*attribution;
  bool listed;  ///< by column and row in the JSON
};
inline constexpr std::array gradient_tensors{gradient_tensor{"delta", "delta", &gradient_bias::delta, &gradient_attribution::delta, false},
                                             gradient_tensor{"dp", "dP", &gradient_bias::dp, &gradient_attribution::dp, false},
                                             gradient_tensor{"ds", "dS", &gradient_bias::ds, &gradient_attribution::ds, false},
                                             gradient_tensor{"dq", "dQ", &gradient_bias::dq, &gradient_attribution::dq, true},
                                             gradient_tensor{"dk", "dK", &gradient_bias::dk, &gradient_attribution::dk, true},
                                             gradient_tensor{"dv", "dV", &gradient_bias::dv, &gradient_attribution::dv, true}};

/// Errors of one head of a tensor.
struct mapped_head {
  std::int64_t head;
  error_map map;
};

/// What was asked for of one file and could be had; a reason stands where something could not.
struct bias_results {
  std::string file;
  std::string shape;  ///< "1 x 2 heads, 384 queries, 384 keys, d = 64, causal"
  std::int64_t heads = 1;
  std::optional<output_bias> o;
  std::optional<tensor_attribution> by_point;
  std::string no_attribution;
  std::optional<gradient_bias> gradients;
  std::string no_gradients;
  std::optional<gradient_attribution> gradients_by_point;
  std::string no_gradient_attribution;
  early_warnings warnings;
  std::map<std::string, tensor_prediction, std::less<>> predicted;  ///< by the names in bias_tensors
  std::string no_prediction;
  std::optional<risk_report> report;
  std::map<std::string, mapped_head, std::less<>> maps;  ///< for a page: of the head with the most biased column

  /// The errors of the tensors that were asked for.
  [[nodiscard]] call_errors errors(bias_request const& request) const;
};

void print_bias(bias_request const& request, bias_results const& results, attention_schedule const& schedule);

/// One file's page; take_maps() comes before.
[[nodiscard]] std::string bias_page(bias_request const& request, bias_results const& results, attention_schedule const& schedule);
void take_maps(bias_request const& request, attention_schedule const& schedule, attention_problem const& problem, engine how, bias_results& results);

/// One file's part of the JSON.
[[nodiscard]] nlohmann::json bias_json(bias_request const& request, bias_results const& results);

/// The trend of every quantity over the files: a list of {name, direction, score, pairs, p, values}.
[[nodiscard]] nlohmann::json trend_json(bias_request const& request, std::vector<bias_results> const& files);
void print_trend(bias_request const& request, std::vector<bias_results> const& files, attention_schedule const& schedule);

/// One line for each file and quantity; the columns stand in docs/risk_report.md.
[[nodiscard]] std::string bias_csv(bias_request const& request, std::vector<bias_results> const& files, attention_schedule const& schedule);

}  // namespace stickybit::cli
