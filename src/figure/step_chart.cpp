#include "stickybit/figure/step_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "curve.hpp"

namespace stickybit::figure {
namespace {

constexpr double width = 680, height = 280, left = 70, right = 664, top = 44, bottom = 232;

/// The tenth part of |values| that are neither 0 nor infinite is smaller; 0 if there are none.
double knee_of(std::vector<double> const& values) {
  std::vector<double> sizes;
  for (double v : values)
    if (v != 0 && std::isfinite(v)) sizes.push_back(std::abs(v));
  if (sizes.empty()) return 0;
  const auto tenth = sizes.begin() + std::ptrdiff_t(sizes.size() / 10);
  std::nth_element(sizes.begin(), tenth, sizes.end());
  return std::max(*tenth, *std::max_element(sizes.begin(), sizes.end()) * 1e-12);
}

void draw_steps(scene& picture, detail::scale const& x, step_chart_data const& data) {
  double last_right = -1;
  for (double step : x.ticks(6)) {
    if (step != std::floor(step)) continue;
    const text label{x(step), bottom + 18, detail::number_text(step, 12), anchor::middle, role::muted, 11};
    if (extent(label).left < last_right + 8 || extent(label).right > width) continue;
    last_right = extent(label).right;
    picture.add(line{x(step), bottom, x(step), bottom + 5, role::axis});
    picture.add(label);
  }
  picture.add(text{right, bottom + 38, data.step_name, anchor::end, role::muted, 11});
}

/// Puts words beside their dots, where they meet no other words and, if there is such a place, no curve.
class mark_writer {
 public:
  mark_writer(scene& picture, detail::scale const& x, detail::scale const& y, step_chart_data const& data) : picture_(picture), x_(x), y_(y), data_(data) {}

  void draw(step_mark const& m) {
    if (m.step < 0 || m.step >= std::int64_t(data_.values.size())) return;
    const double value = data_.values[std::size_t(m.step)];
    if (!std::isfinite(value)) return;
    const double at = x_(double(m.step)), level = y_(value);
    picture_.add(diamond_mark(at, level, 5, role::highlight, fmt::format("{} {}: {} ({})", data_.step_name, m.step, detail::number_text(value, 6), m.label)));
    const std::string words = shortened(m.label, 220, 11);
    const double half = text_width(words, 11) / 2, middle = std::clamp(at, left + half + 2, right - half - 2);
    const point places[] = {{middle, -12}, {middle, 20}, {at + half + 10, 4}, {at - half - 10, 4}, {middle, -28}, {middle, 36}, {middle, -44}, {middle, 52}};
    for (bool over_curve : {false, true})
      for (auto [place_x, offset] : places) {
        text label{place_x, level + offset, words, anchor::middle, role::label, 11};
        const box place = extent(label);
        if (!is_free(place) || (!over_curve && meets_curve(place))) continue;
        taken_.push_back(place);
        if (std::abs(offset) > 24) picture_.add(line{at, level + (offset < 0 ? -6 : 6), at, level + offset + (offset < 0 ? 4 : -12), role::axis, 0.75});
        picture_.add(std::move(label));
        return;
      }
  }

 private:
  [[nodiscard]] bool is_free(box const& place) const {
    const auto collides = [&](box const& b) { return place.left < b.right + 4 && b.left < place.right + 4 && place.top < b.bottom + 2 && b.top < place.bottom + 2; };
    return place.left >= left && place.right <= right && place.top >= top - 22 && place.bottom <= bottom - 2 && std::none_of(taken_.begin(), taken_.end(), collides);
  }
  [[nodiscard]] bool meets_curve(box const& place) const {
    for (std::size_t i = 1; i < data_.values.size(); ++i) {
      const double from = x_(double(i - 1)), to = x_(double(i));
      if (to < place.left || from > place.right || !std::isfinite(data_.values[i - 1]) || !std::isfinite(data_.values[i])) continue;
      const double first = y_(data_.values[i - 1]), slope = to > from ? (y_(data_.values[i]) - first) / (to - from) : 0;
      const double enters = first + slope * (std::max(from, place.left) - from), leaves = first + slope * (std::min(to, place.right) - from);
      if (std::max(enters, leaves) >= place.top && std::min(enters, leaves) <= place.bottom) return true;
    }
    return false;
  }

  scene& picture_;
  detail::scale const& x_;
  detail::scale const& y_;
  step_chart_data const& data_;
  std::vector<box> taken_;
};

}  // namespace

scene step_chart(step_chart_data const& data) {
  const auto count = data.values.size();
  scene picture{data.title, {}, {}, width, height, {}};
  const double knee = data.symlog ? knee_of(data.values) : 0;
  const detail::scale x({0, count < 2 ? 1.0 : double(count - 1)}, left, right);
  const detail::scale y(detail::interval_of(data.values, true), bottom, top, knee);
  const std::string unit = data.unit.empty() ? "" : fmt::format(" ({})", data.unit);
  picture.add(text{left, 18, shortened(data.value_name + unit, right - left, 12, false, true), anchor::start, role::label, 12, false, true});
  detail::draw_value_axis(picture, y, left, right, 5);
  draw_steps(picture, x, data);
  const detail::curve_notes notes = detail::draw_curve(picture, data.values, x, y, role::neutral, right - left);
  mark_writer write(picture, x, y, data);
  for (step_mark const& m : data.marks) write.draw(m);
  if (count == 0) picture.add(text{(left + right) / 2, (top + bottom) / 2, "no steps", anchor::middle, role::muted});

  const detail::interval all = detail::interval_of(data.values, false);
  picture.description = count == 0 ? "No steps." : fmt::format("{} against {} over {} steps, from {} to {}; the last is {}.", data.value_name + unit, data.step_name, count,
                                                               detail::number_text(all.lo), detail::number_text(all.hi), detail::number_text(data.values.back()));
  if (notes.thinned) picture.caption += fmt::format("{} steps; each pixel shows the least and the greatest of its steps. ", count);
  if (notes.not_finite != 0) picture.caption += fmt::format("{} not finite, left out as a gap. ", detail::counted(notes.not_finite, "value"));
  if (knee > 0) picture.caption += fmt::format("The vertical axis is linear within ±{} and logarithmic beyond.", detail::number_text(knee));
  if (!picture.caption.empty() && picture.caption.back() == ' ') picture.caption.pop_back();
  return picture;
}

}  // namespace stickybit::figure
