#include "stickybit/identify/backward_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>

#include "axes.hpp"
#include "selected_call.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/compare.hpp"

namespace stickybit {
namespace {

using detail::head_group;
using detail::selected_call;

gradient_fit fit_of(const char* name, std::vector<std::int64_t> const& shape, std::vector<bf16_code> const& captured, std::vector<bf16_code> const& computed) {
  const comparison c = compare(make_tensor<bf16_code>(dtype::bf16, shape, captured), make_tensor<bf16_code>(dtype::bf16, shape, computed));
  return {c.mismatches, c.total, c.first ? name + position_text(shape, c.first->index) : std::string()};
}

gradient_fits fits_of(attention_problem const& p, captured_gradients const& captured, backward_result const& r) {
  return {fit_of("dv", p.key_shape(), captured.dv, r.dv), fit_of("dk", p.key_shape(), captured.dk, r.dk), fit_of("dq", p.query_shape(), captured.dq, r.dq)};
}

void require_gradients(attention_problem const& p, captured_gradients const& captured) {
  const auto require = [](const char* name, std::size_t size, std::size_t expected) {
    if (size != expected) throw std::invalid_argument(fmt::format("search of a backward pass: {} has {} elements, expected {}", name, size, expected));
  };
  require("do", p.d_o.size(), p.q.size());
  require("dq", captured.dq.size(), p.q.size());
  require("dk", captured.dk.size(), p.k.size());
  require("dv", captured.dv.size(), p.v.size());
}

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> all(std::size_t(count), 0);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The calls on which points of one stage are measured: some keys with every row, or for dQ some rows with every key.
class sample {
 public:
  sample(attention_problem const& p, forward_result const& forward, captured_gradients const& captured, bool of_rows)
      : p_(p), forward_(forward), captured_(captured), of_rows_(of_rows) {}

  void add(head_group group, std::vector<std::int64_t> const& some) {
    if (of_rows_) calls_.emplace_back(p_, forward_, captured_, group, some, all_of(p_.keys));
    else calls_.emplace_back(p_, forward_, captured_, group, all_of(p_.queries), some);
  }

  /// As many as fit the work, in products; first and last among them.
  void add_random(head_group group, double work, std::mt19937_64& random) {
    const std::int64_t count = of_rows_ ? p_.queries : p_.keys, others = of_rows_ ? p_.keys : p_.queries;
    const double each = 5.0 * double(p_.heads / p_.key_heads) * double(others) * double(p_.head_dim);
    const std::int64_t wanted = std::clamp<std::int64_t>(std::int64_t(work / each), std::min<std::int64_t>(2, count), count);
    std::set<std::int64_t> chosen{0, count - 1};
    while (std::ssize(chosen) < wanted) chosen.insert(std::int64_t(random() % std::uint64_t(count)));
    add(group, {chosen.begin(), chosen.end()});
  }

  [[nodiscard]] std::int64_t mismatches(attention_schedule const& schedule, gradient_stage stage, std::uint64_t* matrices = nullptr) const {
    std::int64_t n = 0;
    for (selected_call const& call : calls_) n += call.mismatches(schedule, stage, matrices);
    return n;
  }

  [[nodiscard]] bool holds(head_group group, std::int64_t index) const {
    return std::any_of(calls_.begin(), calls_.end(), [&](selected_call const& call) {
      auto const& list = of_rows_ ? call.rows() : call.keys();
      return call.group() == group && std::binary_search(list.begin(), list.end(), index);
    });
  }

 private:
  attention_problem const& p_;
  forward_result const& forward_;
  captured_gradients const& captured_;
  bool of_rows_;
  std::vector<selected_call> calls_;
};

class backward_searcher {
 public:
  backward_searcher(backward_space const& space, attention_problem const& p, forward_result const& forward, captured_gradients const& captured, progress const& report,
           std::uint64_t seed)
      : space_(space), p_(p), forward_(forward), captured_(captured), report_(report), random_(seed), few_{sample(p, forward, captured, false), sample(p, forward, captured, true)},
        many_{few_} {
    const head_group group = any_group();
    for (std::size_t i = 0; i < 2; ++i) {
      few_[i].add_random(group, few_products, random_);
      many_[i].add_random(any_group(), many_products, random_);
    }
  }

  backward_search_result run() {
    std::optional<backward_search_result> best;
    for (int round = 0; round < 3; ++round) {
      std::vector<schedule_point> points{space_.origin()};
      for (gradient_stage stage : gradient_stages) points = fitting(stage, points);
      bool added = false;
      for (std::size_t i = 0; i < std::min<std::size_t>(points.size(), 4); ++i) {
        const backward_result r = gradients(points[i]);
        backward_search_result found{points[i], fits_of(p_, captured_, r), 0, {}};
        if (!best || mismatches_of(found.fits) < mismatches_of(best->fits)) best = std::move(found);
        if (mismatches_of(best->fits) == 0) break;
        if (i == 0) added = add_failing(r);
      }
      if (mismatches_of(best->fits) == 0 || !added) break;
    }
    best->schedules_tried = tried_;
    if (mismatches_of(best->fits) == 0) best->also_fits = alternatives(best->point);
    return std::move(*best);
  }

 private:
  static constexpr double few_products = 1e6, many_products = 2e7;
  static constexpr std::size_t most_fitting = 96, most_near = 6;

  struct ranked_point {
    std::int64_t mismatches;
    std::uint64_t matrices;  // equal where P and dS are
    schedule_point point;
  };

  head_group any_group() { return {std::int64_t(random_() % std::uint64_t(p_.batch)), std::int64_t(random_() % std::uint64_t(p_.key_heads))}; }
  static std::size_t sample_of(gradient_stage stage) { return stage == gradient_stage::dq ? 1 : 0; }

  backward_result gradients(schedule_point const& point) const { return attention_backward(space_.make(point), p_, forward_); }

  /// Every combination of the stage's axes after each of the points.
  std::vector<schedule_point> combinations(gradient_stage stage, std::vector<schedule_point> points) const {
    for (std::size_t axis = 0; axis < space_.axes().size(); ++axis) {
      if (space_.stage(axis) != stage) continue;
      std::vector<schedule_point> longer;
      for (schedule_point point : points)
        for (point[axis] = 0; point[axis] < space_.axes()[axis].values.size(); ++point[axis]) longer.push_back(point);
      points = std::move(longer);
    }
    return points;
  }

  /// The points with their mismatches in the stage's gradient on the sample, fewest first; those that fit, or where none does the nearest few.
  std::vector<ranked_point> best_on(sample const& on, gradient_stage stage, std::vector<schedule_point> const& points, bool with_matrices) {
    std::vector<ranked_point> ranked(points.size());
    std::int64_t done = 0;
    // A point to a thread: the loops inside a backward pass are short.
#pragma omp parallel for schedule(dynamic, 4)
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::uint64_t matrices = 0;
      const std::int64_t n = on.mismatches(space_.make(points[i]), stage, with_matrices ? &matrices : nullptr);
      ranked[i] = {n, matrices, points[i]};
#pragma omp critical
      {
        ++done;
        if (report_) report_(done + std::int64_t(stage) * std::ssize(points), 3 * std::ssize(points));
      }
    }
    tried_ += std::ssize(points);
    std::stable_sort(ranked.begin(), ranked.end(), [](auto const& x, auto const& y) { return x.mismatches < y.mismatches; });
    const auto fits = std::size_t(std::count_if(ranked.begin(), ranked.end(), [](auto const& x) { return x.mismatches == 0; }));
    ranked.resize(std::max(fits, std::min(ranked.size(), most_near)));
    return ranked;
  }

  /// Of points that give the same P and dS by the same chains one goes on: later gradients cannot tell the others from it.
  std::vector<schedule_point> fitting(gradient_stage stage, std::vector<schedule_point> const& points) {
    const std::size_t i = sample_of(stage);
    std::vector<schedule_point> near;
    for (ranked_point& r : best_on(few_[i], stage, combinations(stage, points), false)) near.push_back(std::move(r.point));
    std::vector<schedule_point> distinct;
    std::set<std::pair<std::uint64_t, schedule_point>> known;
    for (ranked_point& r : best_on(many_[i], stage, near, true)) {
      schedule_point chains;
      for (std::size_t axis = 0; axis < r.point.size(); ++axis)
        if (space_.axes()[axis].name != "P" && space_.axes()[axis].name != "subnormals" && space_.stage(axis) == gradient_stage::dv) chains.push_back(r.point[axis]);
      if (stage != gradient_stage::dv) chains.push_back(r.point[space_.axis("scale")]);
      if (stage == gradient_stage::dq || known.emplace(r.matrices, chains).second) distinct.push_back(std::move(r.point));
      if (distinct.size() == most_fitting) break;
    }
    return distinct;
  }

  /// Keys and rows outside the samples on which a point fails; false where there is none.
  bool add_failing(backward_result const& r) {
    const auto differs = [&](std::vector<bf16_code> const& a, std::vector<bf16_code> const& b, std::int64_t at) {
      return !std::equal(a.begin() + at, a.begin() + at + p_.head_dim, b.begin() + at, detail::same);
    };
    bool added = false;
    const std::int64_t group = p_.heads / p_.key_heads;
    for (std::int64_t b = 0; b < p_.batch; ++b)
      for (std::int64_t h = 0; h < p_.key_heads; ++h) {
        std::vector<std::int64_t> keys, rows;
        for (std::int64_t key = 0; key < p_.keys && keys.size() < 8; ++key) {
          const std::int64_t at = p_.key_strides().offset(b, h, key);
          if ((differs(captured_.dv, r.dv, at) || differs(captured_.dk, r.dk, at)) && !many_[0].holds({b, h}, key)) keys.push_back(key);
        }
        for (std::int64_t row = 0; row < p_.queries && rows.size() < 8; ++row) {
          bool any = false;
          for (std::int64_t head = h * group; head < (h + 1) * group; ++head) any |= differs(captured_.dq, r.dq, p_.query_strides().offset(b, head, row));
          if (any && !many_[1].holds({b, h}, row)) rows.push_back(row);
        }
        for (auto* samples : {&few_, &many_}) {
          if (!keys.empty()) (*samples)[0].add({b, h}, keys);
          if (!rows.empty()) (*samples)[1].add({b, h}, rows);
        }
        added |= !keys.empty() || !rows.empty();
        if (added) return true;  // the next head in the next round
      }
    return added;
  }

  /// Other values that reproduce the whole capture, each alone; the samples decide first, for they are short.
  std::vector<std::vector<std::size_t>> alternatives(schedule_point const& point) const {
    return detail::alternatives(space_.axes(), point, [this](schedule_point const& other) {
      const attention_schedule s = space_.make(other);
      const bool near = many_[0].mismatches(s, gradient_stage::dv) == 0 && many_[0].mismatches(s, gradient_stage::dk) == 0 && many_[1].mismatches(s, gradient_stage::dq) == 0;
      return near && mismatches_of(fits_of(p_, captured_, gradients(other))) == 0;
    });
  }

  backward_space const& space_;
  attention_problem const& p_;
  forward_result const& forward_;
  captured_gradients const& captured_;
  progress report_;
  std::mt19937_64 random_;
  std::array<sample, 2> few_, many_;  // of keys, of rows
  std::int64_t tried_ = 0;
};

}  // namespace

std::int64_t mismatches_of(gradient_fits const& fits) noexcept {
  return std::accumulate(fits.begin(), fits.end(), std::int64_t{0}, [](std::int64_t n, gradient_fit const& f) { return n + f.mismatches; });
}

backward_search_result search_backward(backward_space const& space, attention_problem const& problem, forward_result const& forward, captured_gradients const& captured,
                                       progress const& report, std::uint64_t seed) {
  require_gradients(problem, captured);
  return backward_searcher(space, problem, forward, captured, report, seed).run();
}

std::vector<named_gradient_fit> fit_named_backward(attention_problem const& p, forward_result const& forward, captured_gradients const& captured) {
  require_gradients(p, captured);
  std::vector<named_gradient_fit> fits;
  for (attention_schedule const& schedule : all_attention_schedules()) {
    if (schedule.backward.delta_from != delta_source::bf16_output) continue;  // no capture holds the FP32 O
    try {
      fits.push_back({std::string(schedule.name), fits_of(p, captured, attention_backward(schedule, p, forward))});
    } catch (unsupported_call const&) {
    }
  }
  return fits;
}

}  // namespace stickybit
