#include "curve.hpp"

#include <algorithm>
#include <cmath>

namespace stickybit::figure::detail {
namespace {

/// Indices of the values to draw, ascending: all, or each bin's least, greatest, and one that is not finite, which breaks the line.
std::vector<std::size_t> chosen_indices(std::span<double const> values, std::size_t bins) {
  std::vector<std::size_t> chosen;
  const std::size_t n = values.size();
  for (std::size_t b = 0; b < bins; ++b) {
    const std::size_t first = b * n / bins, end = (b + 1) * n / bins;
    std::size_t least = end, greatest = end, broken = end;
    for (std::size_t i = first; i < end; ++i) {
      if (!std::isfinite(values[i])) broken = i;
      else {
        if (least == end || values[i] < values[least]) least = i;
        if (greatest == end || values[i] > values[greatest]) greatest = i;
      }
    }
    std::size_t bin[] = {least, greatest, broken};
    std::sort(std::begin(bin), std::end(bin));
    for (std::size_t i : bin)
      if (i != end && (chosen.empty() || chosen.back() != i)) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace

curve_notes draw_curve(scene& picture, std::span<double const> values, scale const& x, scale const& y, role stroke, double pixels) {
  curve_notes notes;
  const std::size_t bins = std::min(values.size(), std::size_t(std::max(1.0, pixels)));
  notes.thinned = bins < values.size();
  notes.not_finite = std::count_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  std::vector<point> run;
  const auto finish = [&] {
    if (run.size() == 1) picture.add(diamond_mark(run[0].x, run[0].y, 3, stroke));
    else if (!run.empty()) picture.add(polyline{run, stroke, 1.5, {}});
    run.clear();
  };
  for (std::size_t i : chosen_indices(values, bins)) {
    if (std::isfinite(values[i])) run.push_back({x(double(i)), y(values[i])});
    else finish();
  }
  finish();
  return notes;
}

}  // namespace stickybit::figure::detail
