#include "campaign_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stickybit {
namespace {

using nlohmann::json;

json json_of(sequential_mean_test const& t) {
  const sequential_mean_test::state s = t.save();
  return {{"cases", s.count}, {"sum", s.sum}, {"squares", s.squares}, {"evidence", s.most}, {"log_capital", s.log_capital}, {"mean_ulp", t.mean()}, {"standard_error_ulp", t.standard_error()},
          {"biased", t.biased()}};
}
sequential_mean_test::state state_of(json const& j) {
  return {j.at("cases").get<std::int64_t>(), j.at("sum").get<double>(), j.at("squares").get<double>(), j.at("evidence").get<double>(), j.at("log_capital").get<std::array<double, 6>>()};
}

json json_of(campaign_result const& r) {
  json properties = json::array(), failures = json::array();
  for (property_count const& p : r.properties)
    properties.push_back({{"name", p.name}, {"cases", p.cases}, {"inexact", p.inexact}, {"failures", p.failures}, {"largest_deviation", p.largest}, {"expected", name_of(p.expected)}});
  for (failed_case const& f : r.failures)
    failures.push_back({{"seed", f.seed}, {"recipe", f.recipe}, {"property", f.property}, {"what", f.what}, {"kernel_failure", f.is_kernel_failure}});
  return {{"kernel", r.kernel},         {"schedule", r.schedule},     {"first_seed", r.first_seed}, {"next_seed", r.next_seed}, {"cases", r.cases()}, {"unsupported", r.unsupported},
          {"properties", properties}, {"failures", failures}, {"bias_against_schedule", json_of(r.against_schedule)}, {"bias_against_exact", json_of(r.against_exact)}, {"approximate", r.approximate}, {"passed", r.passed()}};
}

/// Invalid UTF-8, which a kernel's own words may have, is replaced.
std::string dumped(json const& j) { return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string to_json(campaign_result const& result) { return dumped(json_of(result)); }

namespace detail {

std::string space_text(campaign_options const& o) {
  case_space const& s = o.space;
  std::string text = fmt::format("d {}, queries {} to {}, keys to {}, batches {}, scales {}, gradients {}, finite {}, only {}, properties {}", fmt::join(s.head_dims, " "), s.least_queries, s.most_queries,
                                 s.most_keys, s.batches, s.scales, s.gradients, s.finite, fmt::join(s.only, " "), fmt::join(o.properties, " "));
  for (bool c : s.causal) text += c ? ", causal" : ", full";
  if (o.approximate) text += ", approximate";
  return text;
}

std::string state_text(campaign_result const& result, std::string const& space) {
  json j = json_of(result);
  j["space"] = space;
  return dumped(j);
}

void restore(campaign_result& r, std::filesystem::path const& path, std::string const& space) {
  std::ifstream in(path);
  try {
    const json j = json::parse(in);
    const auto same = [&](const char* key, std::string const& wanted) {
      if (const auto found = j.at(key).get<std::string>(); found != wanted) throw std::invalid_argument(fmt::format("{}: is of {} '{}': expected '{}'", path.string(), key, found, wanted));
    };
    same("kernel", r.kernel);
    same("schedule", r.schedule);
    same("space", space);
    if (j.at("first_seed").get<std::uint64_t>() != r.first_seed) throw std::invalid_argument(fmt::format("{}: begins with another seed than {}", path.string(), r.first_seed));
    r.next_seed = j.at("next_seed").get<std::uint64_t>();
    r.unsupported = j.at("unsupported").get<std::int64_t>();
    for (json const& p : j.at("properties")) {
      const auto name = p.at("name").get<std::string>();
      if (std::none_of(r.properties.begin(), r.properties.end(), [&](property_count const& c) { return c.name == name; })) r.properties.push_back({name, 0, 0, 0, 0, holding::exactly});
      for (property_count& count : r.properties)
        if (count.name == name) {
          count.cases = p.at("cases").get<std::int64_t>();
          count.inexact = p.at("inexact").get<std::int64_t>();
          count.failures = p.at("failures").get<std::int64_t>();
          count.largest = p.at("largest_deviation").get<double>();
        }
    }
    for (json const& f : j.at("failures"))
      r.failures.push_back({f.at("seed").get<std::uint64_t>(), f.at("recipe").get<std::string>(), f.at("property").get<std::string>(), f.at("what").get<std::string>(), f.at("kernel_failure").get<bool>()});
    r.against_schedule.restore(state_of(j.at("bias_against_schedule")));
    r.against_exact.restore(state_of(j.at("bias_against_exact")));
  } catch (json::exception const& error) {
    throw std::invalid_argument(fmt::format("{}: is no checkpoint: {}", path.string(), error.what()));
  }
}

}  // namespace detail
}  // namespace stickybit
