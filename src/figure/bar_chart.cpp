#include "stickybit/figure/bar_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "axis.hpp"

namespace stickybit::figure {
namespace {

constexpr double width = 680, row = 28, top = 40, number_room = 84, rms_bars = 70;

/// Where the columns of the picture are, pixels.
struct columns {
  double names, bars, bars_end, numbers, rms, rms_end;
  bool has_rms;
};

columns columns_of(bar_chart_data const& data) {
  double names = 40;
  bool has_rms = false;
  for (bar const& b : data.bars) {
    names = std::max(names, std::min(230.0, text_width(b.name, 12, false, b.total)));
    has_rms = has_rms || std::isfinite(b.rms);
  }
  const double end = has_rms ? width - rms_bars - number_room - 12 : width;
  return {names, names + 24, end - number_room, end - 8, end + 12, end + 12 + rms_bars, has_rms};
}

class drawing {
 public:
  explicit drawing(bar_chart_data const& data)
      : data_(data), at_(columns_of(data)), bottom_(top + row * double(data.bars.size())), x_(detail::interval_of(ends(), true), at_.bars, at_.bars_end) {}

  scene made() {
    picture_.title = data_.title;
    picture_.width = width;
    picture_.height = bottom_ + 34;
    if (data_.bars.empty()) add(text{width / 2, top, "no values", anchor::middle, role::muted});
    else draw_axis();
    for (bar const& b : data_.bars) {
      if (std::isfinite(b.rms)) largest_rms_ = std::max(largest_rms_, b.rms);
      whiskers_ = whiskers_ || std::isfinite(b.standard_error);
    }
    for (std::size_t i = 0; i < data_.bars.size(); ++i) draw_bar(data_.bars[i], top + row * double(i));
    describe();
    return std::move(picture_);
  }

 private:
  template <class Part>
  void add(Part part) {
    picture_.add(std::move(part));
  }

  [[nodiscard]] std::vector<double> ends() const {
    std::vector<double> all;
    for (bar const& b : data_.bars) {
      all.push_back(b.value);
      if (!std::isfinite(b.standard_error)) continue;
      all.push_back(b.value - 2 * b.standard_error);
      all.push_back(b.value + 2 * b.standard_error);
    }
    return all;
  }

  void draw_axis() {
    const std::string unit = data_.unit.empty() ? "" : fmt::format(" ({})", data_.unit);
    add(text{at_.bars, 18, shortened(data_.value_name + unit, at_.numbers - at_.bars, 12, false, true), anchor::start, role::label, 12, false, true});
    if (at_.has_rms) add(text{at_.rms, 18, "rms" + unit, anchor::start, role::label, 12, false, true});
    const std::vector<double> ticks = x_.ticks(4);
    const std::vector<std::string> texts = detail::tick_texts(ticks);
    double last_right = -1;
    for (std::size_t i = 0; i < ticks.size(); ++i) {
      add(line{x_(ticks[i]), top - 8, x_(ticks[i]), bottom_ + 4, ticks[i] == 0 ? role::axis : role::grid, ticks[i] == 0 ? 1.5 : 1});
      const text label{x_(ticks[i]), bottom_ + 20, texts[i], anchor::middle, role::muted, 11};
      if (extent(label).left < last_right + 8) continue;
      last_right = extent(label).right;
      add(label);
    }
  }

  void draw_bar(bar const& b, double y) {
    const double middle = y + row / 2;
    if (b.total) add(line{12, y, at_.has_rms ? width - 8 : at_.numbers, y, role::axis});
    const std::string name = shortened(b.name, at_.names, 12, false, b.total);
    add(text{12 + at_.names, middle + 4, name, anchor::end, role::label, 12, false, b.total, name == b.name ? "" : b.name});
    if (std::isfinite(b.value) && b.value != 0) {
      const double zero = x_(0), end = x_(b.value);
      add(rectangle{std::min(zero, end), middle - 7, std::abs(end - zero), 14, b.value > 0 ? role::positive : role::negative});
      if (std::isfinite(b.standard_error)) draw_whiskers(x_(b.value - 2 * b.standard_error), x_(b.value + 2 * b.standard_error), middle);
    }
    add(text{at_.numbers, middle + 4, detail::signed_text(b.value), anchor::end, role::label, 12, false, b.total});
    if (!std::isfinite(b.rms)) return;
    const double length = largest_rms_ > 0 ? rms_bars * (std::abs(b.rms) / largest_rms_) : 0;
    add(rectangle{at_.rms, middle - 4, length, 8, role::neutral});
    add(text{width - 8, middle + 4, detail::number_text(b.rms), anchor::end, role::label, 12, false, b.total});
  }

  void draw_whiskers(double from, double to, double middle) {
    add(line{from, middle, to, middle, role::label, 1.25});
    for (double end : {from, to}) add(line{end, middle - 4, end, middle + 4, role::label, 1.25});
  }

  void describe() {
    std::string list;
    for (bar const& b : data_.bars) list += fmt::format("{}{} {}", list.empty() ? "" : "; ", b.name, detail::signed_text(b.value));
    picture_.description = data_.bars.empty() ? "No values." : fmt::format("Bars of the {}{}: {}.", data_.value_name, data_.unit.empty() ? "" : " in " + data_.unit, list);
    if (whiskers_) picture_.caption = "Whiskers reach two standard errors to each side.";
  }

  bar_chart_data const& data_;
  columns at_;
  double bottom_;
  detail::scale x_;
  double largest_rms_ = 0;
  bool whiskers_ = false;
  scene picture_{};
};

}  // namespace

scene bar_chart(bar_chart_data const& data) { return drawing(data).made(); }

}  // namespace stickybit::figure
