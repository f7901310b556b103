#include "predict/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/call_forecast.hpp"
#include "stickybit/bias/call_reference.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/bias/output_bias.hpp"

namespace stickybit::test {
namespace {

constexpr double inside_two = 0.9545, width_of_99_9 = 3.2905;

/// What one unit came to.
struct unit {
  std::int64_t head;
  double emulated, own_standard_error;  ///< 0 where there is none
  expected_mean expected;
  double ulp, members;  ///< of the unit's elements; how many the mean is over
};

/// How alike the units of a head are: the squares of their standardised deviations, cut at 6.
class alikeness {
 public:
  void add(std::int64_t head, double z) {
    group& g = of_head_[head];
    const double x = std::min(z * z, 6.0);
    ++g.count, g.sum += x, g.squares += x * x;
  }

  /// Intraclass correlation by analysis of variance; 0 at least.  @source R. A. Fisher, Statistical Methods for Research Workers, chapter VII
  [[nodiscard]] double correlation() const {
    double n = 0, sum = 0, squares = 0;
    for (auto const& [head, h] : of_head_) n += h.count, sum += h.sum, squares += h.count * h.count;
    const double groups = double(of_head_.size());
    if (groups < 2 || n <= groups) return 0;
    const double mean = sum / n, size = (n - squares / n) / (groups - 1);
    double between = 0, within = 0;
    for (auto const& [head, h] : of_head_) {
      const double of_head = h.sum / h.count;
      between += h.count * (of_head - mean) * (of_head - mean);
      within += h.squares - h.sum * of_head;
    }
    between /= groups - 1;
    within /= n - groups;
    const double both = between + (size - 1) * within;
    return both <= 0 ? 0 : std::max(0.0, (between - within) / both);
  }
  [[nodiscard]] double effective() const {
    double n = 0;
    for (auto const& [head, h] : of_head_) n += h.count;
    return of_head_.empty() ? 0 : n / (1 + (n / double(of_head_.size()) - 1) * correlation());
  }

 private:
  struct group {
    double count = 0, sum = 0, squares = 0;
  };
  std::map<std::int64_t, group> of_head_;
};

calibration summarize_units(std::string const& regime, std::string_view schedule, std::string_view tensor, std::vector<unit> const& all) {
  calibration c{.regime = regime, .schedule = std::string(schedule), .tensor = tensor};
  alikeness of_heads;
  double squares = 0, with_variance = 0;
  for (unit const& u : all) {
    if (u.ulp == 0) continue;  // every exact value is 0: there is no unit to measure in
    ++c.units;
    const double off = u.emulated - u.expected.mean, total = u.expected.smooth + u.expected.jumps, se = u.expected.standard_error(), tolerance = 1e-4 * u.ulp;
    if (u.own_standard_error > 0 && std::fabs(u.emulated) > 5 * u.own_standard_error) {
      ++c.biased;
      c.sign_right += (u.emulated > 0) == (u.expected.mean > 0);
    }
    if (total > tolerance * tolerance) squares += off * off / total, ++with_variance;
    if (se <= tolerance) {
      ++c.known;
      c.known_steps += u.expected.expected_jumps();
      c.known_off += std::fabs(off) > 0.3 * u.ulp / u.members + 3 * tolerance;
    } else if (!u.expected.is_normal()) {
      ++c.abstained;
    } else {
      ++c.calibrated;
      c.inside += std::fabs(off) <= 2 * se;
      c.inside_of_zero += std::fabs(u.emulated) <= 2 * se;
      of_heads.add(u.head, off / se);
    }
  }
  c.correlation = of_heads.correlation();
  c.effective = of_heads.effective();
  c.mean_square = with_variance == 0 ? 0 : squares / with_variance;
  return c;
}

template <class Expected>
std::vector<unit> columns(tensor_error const& e, std::int64_t rows, Expected expected) {
  std::vector<unit> units;
  for (column_error const& c : e.columns) units.push_back({c.head, c.mean_ulp * c.ulp, c.standard_error_ulp * c.ulp, expected(c.head, std::size_t(c.column)), c.ulp, double(rows)});
  return units;
}

/// Rows in fours, in the order they come: the mean of their means.
template <class Expected>
std::vector<unit> rows_of(tensor_error const& e, std::int64_t members, Expected expected) {
  constexpr std::size_t together = 4;
  std::vector<unit> units;
  for (std::size_t i = 0; i + together <= e.rows.size(); i += together) {
    if (e.rows[i].head != e.rows[i + together - 1].head) continue;
    unit u{e.rows[i].head, 0, 0, {}, 0, double(members) * double(together)};
    double squares = 0;
    for (row_error const& r : std::span(e.rows).subspan(i, together)) {
      const double ulp = r.ulp != 0 ? r.ulp : e.columns[std::size_t(r.head)].ulp, n = double(together);
      const expected_mean x = expected(r.head, std::size_t(r.row));
      u.emulated += r.mean_ulp * ulp / n;
      u.expected.mean += x.mean / n;
      u.expected.smooth += x.smooth / (n * n);
      u.expected.jumps += x.jumps / (n * n);
      u.expected.fourth += x.fourth / (n * n * n * n);
      squares += ulp * ulp / n;
    }
    u.ulp = std::sqrt(squares);
    units.push_back(u);
  }
  return units;
}

}  // namespace

double calibration::half_band() const noexcept { return effective == 0 ? 1 : width_of_99_9 * std::sqrt(inside_two * (1 - inside_two) / effective); }
bool calibration::in_band() const noexcept { return calibrated == 0 || std::fabs(share() - inside_two) <= half_band(); }
bool calibration::steps_fit(std::int64_t heads) const noexcept { return double(known_off) <= known_steps + width_of_99_9 * std::sqrt(known_steps) + double(heads); }

std::vector<calibration> calibrate_all(std::string regime, std::vector<attention_schedule> const& schedules, attention_problem const& p) {
  std::vector<calibration> table;
  const call_reference exact(p, mask_of(schedules.at(0), p));
  const std::int64_t group = p.heads / p.key_heads;
  for (attention_schedule const& schedule : schedules) {
    if (mask_of(schedule, p) != exact.mask()) throw std::invalid_argument("calibrate_all: schedules of one mask");
    const std::vector<forecast> all = forecast_call(schedule, p);
    const auto of_head = [&](std::int64_t h) -> head_forecast const& { return all[std::size_t(h / group)].heads[std::size_t(h % group)]; };
    const auto add = [&](std::string_view tensor, std::vector<unit> const& units) { table.push_back(summarize_units(regime, schedule.name, tensor, units)); };
    const forward_result forward = attention_forward(schedule, p);
    add("o", columns(exact.error_of(forward).o, p.queries, [&](std::int64_t h, std::size_t c) { return of_head(h).o.by_column[c]; }));
    if (all[0].heads[0].delta.empty()) continue;
    const gradient_bias g = bias_of_gradients(schedule, exact, {});
    add("delta", rows_of(g.delta, 1, [&](std::int64_t h, std::size_t r) { return of_head(h).delta[r]; }));
    add("dp", rows_of(g.dp, p.keys, [&](std::int64_t h, std::size_t r) { return of_head(h).dp[r]; }));
    add("ds", rows_of(g.ds, p.keys, [&](std::int64_t h, std::size_t r) { return of_head(h).ds[r]; }));
    add("dq", columns(g.dq, p.queries, [&](std::int64_t h, std::size_t c) { return of_head(h).dq.by_column[c]; }));
    add("dk", columns(g.dk, p.keys, [&](std::int64_t h, std::size_t c) { return all[std::size_t(h)].dk.by_column[c]; }));
    add("dv", columns(g.dv, p.keys, [&](std::int64_t h, std::size_t c) { return all[std::size_t(h)].dv.by_column[c]; }));
  }
  return table;
}

std::vector<calibration> calibrate(std::string regime, attention_schedule const& schedule, attention_problem const& problem) {
  return calibrate_all(std::move(regime), {schedule}, problem);
}

std::string header_line() {
  return fmt::format("{:<22} {:<10} {:<6} {:>6} {:>6} {:>6} {:>10} {:>6} {:>7} {:>5} {:>7} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6}  {}", "regime", "schedule", "tensor", "units", "known", "off", "expected",
                     "abst.", "calibr.", "rho", "n eff.", "within", "band", "zero", "chi2", "biased", "right", "verdict");
}

std::string line_of(calibration const& c) {
  std::string verdict;
  if (c.abstains_too_often()) verdict = "abstains";
  if (!c.in_band()) verdict += verdict.empty() ? "outside" : ", outside";
  if (verdict.empty()) verdict = c.calibrated == 0 ? "known" : "in band";
  return fmt::format("{:<22} {:<10} {:<6} {:>6} {:>6} {:>6} {:>10.1f} {:>6} {:>7} {:>5.2f} {:>7.0f} {:>7.4f} {:>7.4f} {:>6.3f} {:>7.3g} {:>6} {:>6}  {}", c.regime, c.schedule, c.tensor, c.units, c.known,
                     c.known_off, c.known_steps, c.abstained, c.calibrated, c.correlation, c.effective, c.share(), c.half_band(),
                     c.calibrated == 0 ? 0 : double(c.inside_of_zero) / double(c.calibrated), c.mean_square, c.biased, c.sign_right, verdict);
}

}  // namespace stickybit::test
