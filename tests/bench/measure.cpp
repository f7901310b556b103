#include "measure.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::bench {
namespace {

double seconds_of(std::function<void()> const& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string rate_text(double rate, std::string const& unit) { return fmt::format("{:.3g} {}/s", rate, unit); }

}  // namespace

result measure(comparison const& c, double seconds) {
  c.run();  // warm caches and pages
  if (c.reference) c.reference();
  std::vector<double> times, reference_times, ratios;
  double spent = 0;
  while (times.size() < 5 || spent < seconds) {
    times.push_back(seconds_of(c.run));
    spent += times.back();
    if (!c.reference) continue;
    reference_times.push_back(seconds_of(c.reference));
    spent += reference_times.back();
    ratios.push_back((c.work / times.back()) / (c.reference_work / reference_times.back()));
  }
  return {c.name, c.unit, c.reference_name, c.work / median(times), c.reference ? c.reference_work / median(reference_times) : 0, c.reference ? median(ratios) : 0,
          int(times.size())};
}

void print(std::vector<result> const& results) {
  fmt::print("{:<58} {:>22} {:>10}  {}\n", "what", "rate", "ratio", "to");
  for (result const& r : results) {
    const std::string reference = r.reference_name.empty() ? "" : fmt::format("{}, {}", r.reference_name, rate_text(r.reference_rate, r.unit));
    fmt::print("{:<58} {:>22} {:>10}  {}\n", r.name, rate_text(r.rate, r.unit), r.reference_name.empty() ? "" : fmt::format("{:.3g}", r.ratio), reference);
  }
}

void save_json(std::vector<result> const& results, std::string const& path) {
  nlohmann::json list = nlohmann::json::array();
  for (result const& r : results)
    list.push_back({{"name", r.name}, {"unit", r.unit}, {"rate", r.rate}, {"reference", r.reference_name}, {"reference_rate", r.reference_rate}, {"ratio", r.ratio}, {"pairs", r.pairs}});
  output_file out(path);
  out.write(list.dump(2) + "\n");
  out.commit();
}

}  // namespace stickybit::bench
