#include "stickybit/identify/attention_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "axes.hpp"
#include "stickybit/attention/forward_probe.hpp"
#include "stickybit/bias/compare.hpp"

namespace stickybit {
namespace {

bool same(bf16_code a, bf16_code b) { return a == b || (a.is_nan() && b.is_nan()); }
bool same(f32_code a, f32_code b) { return a == b || (a.is_nan() && b.is_nan()); }

std::int64_t lse_index(attention_problem const& p, probed_row r) { return (r.batch * p.heads + r.head) * p.queries + r.row; }

/// Codes of O and of LSE that differ on the first `rows` probed rows.
struct score {
  std::size_t rows = 0;
  std::int64_t o = 0, lse = 0;
};

/// Rows that between them meet first and last blocks, both ends of the mask, and every head.
std::vector<probed_row> choose_rows(attention_problem const& p, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<probed_row> rows;
  const std::int64_t wanted = std::min<std::int64_t>(40, p.batch * p.heads * p.queries);
  std::set<std::int64_t> taken;
  for (std::int64_t i = 0; std::int64_t(rows.size()) < wanted; ++i) {
    const std::int64_t head = i % (p.batch * p.heads);
    std::int64_t row = i < 2 * p.batch * p.heads ? (i < p.batch * p.heads ? p.queries - 1 : 0) : std::int64_t(random() % std::uint64_t(p.queries));
    if (!taken.insert(head * p.queries + row).second) continue;
    rows.push_back({head / p.heads, head % p.heads, row});
  }
  return rows;
}

class forward_searcher {
 public:
  forward_searcher(schedule_space const& space, attention_problem const& problem, captured_forward const& captured, progress const& report, std::uint64_t seed)
      : space_(space), problem_(problem), captured_(captured), report_(report), probe_(std::make_unique<forward_probe>(problem, choose_rows(problem, seed))) {}

  search_result run() {
    search_result best;
    for (int round = 0; round < 4; ++round) {
      const schedule_point point = best_point();
      search_result found = confirm(point);
      if (round == 0 || found.mismatches < best.mismatches) best = std::move(found);
      if (best.mismatches == 0 || !add_failing_rows(point)) break;
    }
    best.schedules_tried = tried_;
    if (best.mismatches == 0) best.also_fits = alternatives(best.point);
    return best;
  }

 private:
  static constexpr double any_share = 3;  // no point's share is as large
  static constexpr std::size_t first_rows = 10, more_rows = 3;
  static constexpr std::size_t most_screened = 96, most_cut = 24, most_starts = 6;

  /// Share of O that differs on all probed rows, and that plus LSE's share.
  [[nodiscard]] double share_of_o(score const& s) const { return double(s.o) / (double(probe_->rows().size()) * double(problem_.head_dim)); }
  [[nodiscard]] double share(score const& s) const { return share_of_o(s) + double(s.lse) / double(probe_->rows().size()); }

  /// The point's mismatches on the first rows, and on more and more of them, to the last, while its share stays below `enough`.
  score measure(schedule_point const& point, double enough = any_share) {
    const auto [known, is_new] = scores_.try_emplace(point);
    score& s = known->second;
    if (is_new) ++tried_;
    if (is_new && report_) report_(std::min<std::int64_t>(tried_, 2999), 3000);
    const std::size_t all = probe_->rows().size();
    while (s.rows == 0 || (s.rows < all && share(s) < enough)) extend(s, space_.make(point), std::min(all, s.rows == 0 ? first_rows : more_rows * s.rows));
    return s;
  }

  /// Mismatches in O on the first rows alone.  @pre no more were looked at
  std::int64_t screen(schedule_point const& point) { return measure(point, 0).o; }

  /// Mismatches on the probed rows up to `rows`.
  void extend(score& s, attention_schedule const& schedule, std::size_t rows) {
    const forward_result r = probe_->run(schedule, s.rows, rows - s.rows);
    const auto d = std::size_t(problem_.head_dim);
    for (std::size_t i = 0; s.rows < rows; ++s.rows, ++i) {
      const probed_row row = probe_->rows()[s.rows];
      const auto wanted = captured_.o.begin() + problem_.query_strides().offset(row.batch, row.head, row.row);
      for (std::size_t j = 0; j < d; ++j) s.o += !same(r.o[i * d + j], wanted[std::ptrdiff_t(j)]);
      if (!captured_.lse.empty()) s.lse += !same(r.lse[i], captured_.lse[std::size_t(lse_index(problem_, row))]);
    }
  }

  /// Every combination of the axes that most elements show, by O alone, the others at their first value; the best few. First on few rows.
  std::vector<schedule_point> starts() {
    const std::size_t unit = space_.axis("unit"), block = space_.axis("key block"), order = space_.axis("order of blocks"), exponent = space_.axis("exponent");
    std::vector<schedule_point> all;
    schedule_point point = space_.origin();
    for (point[unit] = 0; point[unit] < space_.axes()[unit].values.size(); ++point[unit])
      for (point[block] = 0; point[block] < space_.axes()[block].values.size(); ++point[block])
        for (point[order] = 0; point[order] < 2; ++point[order])
          for (point[exponent] = 0; point[exponent] < space_.axes()[exponent].values.size(); ++point[exponent]) all.push_back(point);
    const auto by_o = [this](schedule_point const& p) { return share_of_o(measure(p)); };
    all = nearest(all, most_screened, [this](schedule_point const& p) { return screen(p); });
    all = nearest(all, most_cut, by_o);
    // Of the best, the same with the keys cut into parts: a wrong number of parts looks like a wrong block width.
    const std::size_t parts = space_.axis("parts of the keys");
    for (std::size_t i = 0, uncut = all.size(); i < uncut; ++i)
      for (std::size_t n = 1; n < 6; ++n) {
        all.push_back(all[i]);
        all.back()[parts] = n;
      }
    return nearest(all, most_starts, by_o);
  }

  /// The points of the least measure, so many at most, least first.
  template <class Measure>
  static std::vector<schedule_point> nearest(std::vector<schedule_point> const& points, std::size_t most, Measure measure) {
    using ranked_point = std::pair<decltype(measure(points.front())), schedule_point>;
    std::vector<ranked_point> ranked;
    for (schedule_point const& p : points) ranked.emplace_back(measure(p), p);
    std::stable_sort(ranked.begin(), ranked.end(), [](ranked_point const& a, ranked_point const& b) { return a.first < b.first; });
    std::vector<schedule_point> best;
    for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) best.push_back(std::move(ranked[i].second));
    return best;
  }

  /// Changes one axis at a time to its best value until none helps; then pairs of axes.
  schedule_point descend(schedule_point point) {
    double best = share(measure(point));
    for (bool better = true; better && best > 0;) {
      better = improve(point, best, 1);
      if (!better) better = improve(point, best, 2);
    }
    return point;
  }

  /// The first change of `depth` axes that lowers the score, as far as it goes on one axis.
  bool improve(schedule_point& point, double& best, int depth) {
    bool better = false;
    for (std::size_t axis = 0; axis < point.size() && best > 0; ++axis) {
      const std::size_t before = point[axis];
      std::size_t chosen = before;
      for (std::size_t value = 0; value < space_.axes()[axis].values.size(); ++value) {
        if (value == before) continue;
        point[axis] = value;
        if (depth == 1) {
          const double s = share(measure(point, best));
          if (s < best) {
            best = s;
            chosen = value;
            better = true;
          }
        } else if (improve(point, best, 1)) {
          return true;
        }
      }
      point[axis] = chosen;
    }
    return better;
  }

  schedule_point best_point() {
    schedule_point best;
    double lowest = any_share;
    for (schedule_point const& start : starts()) {
      const schedule_point end = descend(start);
      if (const double left = share(measure(end)); left < lowest) {
        lowest = left;
        best = end;
      }
      if (lowest == 0) break;
    }
    return best;
  }

  search_result confirm(schedule_point const& point) const {
    search_result found;
    found.point = point;
    const forward_result r = attention_forward(space_.make(point), problem_);
    const comparison o = compare(make_tensor<bf16_code>(dtype::bf16, problem_.output_shape(), captured_.o), make_tensor<bf16_code>(dtype::bf16, problem_.output_shape(), r.o));
    found.mismatches = o.mismatches;
    found.total = o.total;
    if (o.first) found.first = fmt::format("O{}", position_text(problem_.output_shape(), o.first->index));
    if (captured_.lse.empty()) return found;
    const comparison lse = compare(make_tensor<f32_code>(dtype::f32, problem_.row_shape(), captured_.lse), make_tensor<f32_code>(dtype::f32, problem_.row_shape(), r.lse));
    found.mismatches += lse.mismatches;
    found.total += lse.total;
    if (found.first.empty() && lse.first) found.first = fmt::format("lse{}", position_text(problem_.row_shape(), lse.first->index));
    return found;
  }

  /// Rows outside the probe on which the point fails; false where there is none.
  bool add_failing_rows(schedule_point const& point) {
    const forward_result r = attention_forward(space_.make(point), problem_);
    std::vector<probed_row> rows = probe_->rows();
    std::size_t added = 0;
    for (std::int64_t b = 0; b < problem_.batch; ++b)
      for (std::int64_t head = 0; head < problem_.heads; ++head)
        for (std::int64_t row = 0; row < problem_.queries && added < 24; ++row) {
          const probed_row candidate{b, head, row};
          const std::int64_t at = problem_.query_strides().offset(b, head, row);
          bool differs = !captured_.lse.empty() && !same(r.lse[std::size_t(lse_index(problem_, candidate))], captured_.lse[std::size_t(lse_index(problem_, candidate))]);
          for (std::int64_t j = 0; j < problem_.head_dim; ++j) differs |= !same(r.o[std::size_t(at + j)], captured_.o[std::size_t(at + j)]);
          const bool known = std::any_of(rows.begin(), rows.end(), [&](probed_row x) { return x.batch == b && x.head == head && x.row == row; });
          if (!differs || known) continue;
          rows.push_back(candidate);
          ++added;
        }
    if (added == 0) return false;
    probe_ = std::make_unique<forward_probe>(problem_, rows);
    scores_.clear();
    return true;
  }

  /// Other values that reproduce the whole capture, each alone; the probed rows decide first.
  std::vector<std::vector<std::size_t>> alternatives(schedule_point const& point) {
    constexpr double any_mismatch = 1e-9;
    return detail::alternatives(space_.axes(), point, [this](schedule_point const& other) { return share(measure(other, any_mismatch)) == 0 && confirm(other).mismatches == 0; });
  }

  schedule_space const& space_;
  attention_problem const& problem_;
  captured_forward const& captured_;
  progress report_;
  std::unique_ptr<forward_probe> probe_;
  std::map<schedule_point, score> scores_;
  std::int64_t tried_ = 0;
};

}  // namespace

search_result search_attention(schedule_space const& space, attention_problem const& problem, captured_forward const& captured, progress const& report,
                               std::uint64_t seed) {
  return forward_searcher(space, problem, captured, report, seed).run();
}

std::vector<named_fit> fit_named_schedules(attention_problem const& p, captured_forward const& captured) {
  std::vector<named_fit> fits;
  const tensor o = make_tensor<bf16_code>(dtype::bf16, p.output_shape(), captured.o);
  for (attention_schedule const& schedule : all_attention_schedules()) {
    named_fit fit{std::string(schedule.name), 0, 0, {}};
    try {
      const forward_result r = attention_forward(schedule, p);
      const comparison c = compare(o, make_tensor<bf16_code>(dtype::bf16, p.output_shape(), r.o));
      fit.mismatches = c.mismatches;
      fit.total = c.total;
      if (c.first) fit.first = fmt::format("O{}", position_text(p.output_shape(), c.first->index));
      if (!captured.lse.empty()) {
        const comparison l = compare(make_tensor<f32_code>(dtype::f32, p.row_shape(), captured.lse), make_tensor<f32_code>(dtype::f32, p.row_shape(), r.lse));
        fit.mismatches += l.mismatches;
        fit.total += l.total;
        if (fit.first.empty() && l.first) fit.first = fmt::format("lse{}", position_text(p.row_shape(), l.first->index));
      }
    } catch (unsupported_call const&) {
    }
    fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace stickybit
