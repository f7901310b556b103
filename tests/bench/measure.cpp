#include "measure.hpp"

#include <fmt/format.h>
#include <hwy/targets.h>
#include <omp.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::bench {
namespace {

/// One rival's times, and ours over them.
struct series {
  rival const& of;
  std::vector<double> times, ratios;

  double take(double own_rate) {
    if (of.name.empty()) return 0;
    times.push_back(seconds_of(of.run));
    ratios.push_back(own_rate / (of.work / times.back()));
    return times.back();
  }
  [[nodiscard]] rival_result summary() const {
    if (of.name.empty()) return {};
    return {of.name, of.work / median(times), median(ratios)};
  }
};

std::string rate_text(double rate, std::string const& unit) { return fmt::format("{:.3g} {}/s", rate, unit); }

nlohmann::json as_json(rival_result const& r) { return {{"name", r.name}, {"rate", r.rate}, {"ratio", r.ratio}}; }

}  // namespace

double seconds_of(std::function<void()> const& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

result measure(comparison const& c, double seconds) {
  c.run();  // warm caches and pages
  series definition{c.definition, {}, {}}, other{c.other, {}, {}};
  std::vector<double> times;
  double spent = 0;
  while (times.size() < 5 || spent < seconds) {
    times.push_back(seconds_of(c.run));
    const double rate = c.work / times.back();
    spent += times.back() + definition.take(rate) + other.take(rate);
  }
  return {c.name, c.unit, c.work / median(times), definition.summary(), other.summary(), int(times.size())};
}

std::string host_text() {
  std::string name = "unknown processor", line;
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line))
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  const std::int64_t targets = hwy::SupportedTargets() & (HWY_NEON | HWY_AVX3 | HWY_AVX2 | HWY_SSE4);
  return fmt::format("{}, {}, {} threads", name, targets == 0 ? "no vectors" : hwy::TargetName(targets & -targets), omp_get_max_threads());
}

void print(std::vector<result> const& results) {
  fmt::print("{}\n\n{:<58} {:>16} {:>13}  {}\n", host_text(), "what", "rate", "x definition", "x something else");
  for (result const& r : results) {
    const std::string definition = r.definition.name.empty() ? "" : fmt::format("{:.3g}", r.definition.ratio);
    const std::string other = r.other.name.empty() ? "" : fmt::format("{:.3g}  {}, {}", r.other.ratio, r.other.name, rate_text(r.other.rate, r.unit));
    fmt::print("{:<58} {:>16} {:>13}  {}\n", r.name, rate_text(r.rate, r.unit), definition, other);
  }
}

void print(std::vector<published_rate> const& peers, double rate) {
  fmt::print("\n{:<34} {:>20} {:>16}  {}\n", "other models of the sm90 unit", "MAC/s", "ours is faster", "how it was measured");
  for (published_rate const& p : peers)
    fmt::print("{:<34} {:>20} {:>16}  {}\n", p.program, fmt::format("{:.3g} - {:.3g}", p.lowest, p.highest), fmt::format("{:.0f} - {:.0f} x", rate / p.highest, rate / p.lowest), p.how);
}

void print(std::vector<growth_point> const& growth) {
  fmt::print("\n{:<34} {:>10} {:>20} {:>10} {:>20} {:>12}\n", "one head of attention (fa3)", "forward", "ns a score and d", "backward", "ns a score and d", "peak MiB");
  for (growth_point const& g : growth) {
    const double cells = double(g.sequence) * double(g.sequence) * double(g.head_dim);
    fmt::print("{:<34} {:>8.3f} s {:>20.4f} {:>8.3f} s {:>20.4f} {:>12.0f}\n", fmt::format("s = {}, d = {}", g.sequence, g.head_dim), g.forward_seconds, g.forward_seconds / cells * 1e9,
               g.backward_seconds, g.backward_seconds / cells * 1e9, g.peak_mebibytes);
  }
}

void save_json(std::vector<result> const& results, std::vector<published_rate> const& peers, std::vector<growth_point> const& growth, std::string const& path) {
  nlohmann::json list = nlohmann::json::array(), others = nlohmann::json::array(), sizes = nlohmann::json::array();
  for (result const& r : results) {
    list.push_back({{"name", r.name}, {"unit", r.unit}, {"rate", r.rate}, {"rounds", r.rounds}});
    if (!r.definition.name.empty()) list.back()["definition"] = as_json(r.definition);
    if (!r.other.name.empty()) list.back()["other"] = as_json(r.other);
  }
  for (published_rate const& p : peers) others.push_back({{"program", p.program}, {"how", p.how}, {"lowest", p.lowest}, {"highest", p.highest}});
  for (growth_point const& g : growth)
    sizes.push_back({{"sequence", g.sequence}, {"head_dim", g.head_dim}, {"forward_seconds", g.forward_seconds}, {"backward_seconds", g.backward_seconds}, {"peak_mebibytes", g.peak_mebibytes}});
  output_file out(path);
  out.write(nlohmann::json{{"host", host_text()}, {"stages", list}, {"peers", others}, {"growth", sizes}}.dump(2) + "\n");
  out.commit();
}

}  // namespace stickybit::bench
