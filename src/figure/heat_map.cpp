#include "stickybit/figure/heat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "axis.hpp"

namespace stickybit::figure {
namespace {

constexpr std::int64_t most_cells = 96;
constexpr double left = 70, top = 40, legend_cell = 12;
constexpr int levels = 2 * raster::level_count + 1;

/// Means of the finite values of equal parts of the matrix; NaN where a part has none.
struct cells {
  std::int64_t rows, columns, left_out = 0;
  std::vector<double> means;
};

cells cells_of(heat_map_data const& data) {
  cells c{std::min(data.rows, most_cells), std::min(data.columns, most_cells), 0, {}};
  std::vector<std::int64_t> first_column;
  for (std::int64_t j = 0; j <= c.columns; ++j) first_column.push_back(c.columns == 0 ? 0 : j * data.columns / c.columns);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const std::int64_t first = i * data.rows / c.rows, end = (i + 1) * data.rows / c.rows;
    for (std::int64_t j = 0; j < c.columns; ++j) {
      const double part = double((end - first) * (first_column[j + 1] - first_column[j]));
      double sum = 0, count = 0;  // of value / part: a sum of values might overflow
      for (std::int64_t row = first; row < end; ++row)
        for (std::int64_t column = first_column[j]; column < first_column[j + 1]; ++column) {
          const double v = data.values[std::size_t(row * data.columns + column)];
          if (!std::isfinite(v)) ++c.left_out;
          else sum += v / part, ++count;
        }
      c.means.push_back(count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum * (part / count));
    }
  }
  return c;
}

/// The quantile of |means|; of 0 the largest, of all zeros 1.
double limit_of(std::vector<double> const& means, double quantile) {
  std::vector<double> sizes;
  for (double m : means)
    if (std::isfinite(m)) sizes.push_back(std::abs(m));
  if (sizes.empty()) return 1;
  const double q = std::isfinite(quantile) ? std::clamp(quantile, 0.0, 1.0) : 1;
  const auto at = sizes.begin() + std::ptrdiff_t(std::llround(q * double(sizes.size() - 1)));
  std::nth_element(sizes.begin(), at, sizes.end());
  const double limit = *at > 0 ? *at : *std::max_element(sizes.begin(), sizes.end());
  return limit > 0 ? limit : 1;
}

std::int8_t level_of(double mean, double limit) {
  if (!std::isfinite(mean)) return raster::missing;
  return std::int8_t(std::lround(raster::level_count * std::clamp(mean / limit, -1.0, 1.0)));
}

void draw_legend(scene& picture, double y, double limit, std::string const& unit) {
  raster bar{left, y, legend_cell, legend_cell, levels, {}};
  for (int level = -raster::level_count; level <= raster::level_count; ++level) bar.levels.push_back(std::int8_t(level));
  const double end = left + legend_cell * levels, labels = y + legend_cell + 15;
  picture.add(std::move(bar));
  picture.add(rectangle{left, y, end - left, legend_cell, role::axis, true});
  picture.add(text{left, labels, detail::number_text(-limit), anchor::start, role::muted, 11});
  picture.add(text{(left + end) / 2, labels, "0", anchor::middle, role::muted, 11});
  picture.add(text{end, labels, detail::signed_text(limit), anchor::end, role::muted, 11});
  picture.add(text{end + 12, y + 10, shortened(unit, picture.width - end - 16, 11), anchor::start, role::muted, 11});
}

/// First and last index at the edges; the names beside them.
void draw_edges(scene& picture, heat_map_data const& data, double right, double bottom) {
  const auto put = [&](double x, double y, std::string words, anchor place) { picture.add(text{x, y, std::move(words), place, role::muted, 11}); };
  const double room = right - left;
  put(left, top - 22, shortened(fmt::format("{} →", data.column_name), picture.width - left - 8, 11), anchor::start);
  put(left, top - 6, "0", anchor::start);
  if (data.columns > 1 && room > 60) put(right, top - 6, fmt::format("{}", data.columns - 1), anchor::end);
  put(left - 8, top + 10, "0", anchor::end);
  if (data.rows > 1 && bottom - top > 44) put(left - 8, bottom, fmt::format("{}", data.rows - 1), anchor::end);
  if (bottom - top > 44) put(left - 8, (top + bottom) / 2 + 8, shortened(fmt::format("{} ↓", data.row_name), left - 12, 11), anchor::end);
}

void describe(scene& picture, heat_map_data const& data, cells const& c, double limit) {
  const detail::interval range = detail::interval_of(c.means, false);
  picture.description = fmt::format("A map, {} down ({}), {} across ({}); cells from {} to {} {}.", data.rows, data.row_name, data.columns, data.column_name, detail::number_text(range.lo),
                                    detail::number_text(range.hi), data.unit);
  if (c.rows < data.rows || c.columns < data.columns)
    picture.caption += fmt::format("{} × {} values drawn as {} × {} cells, each the mean of its values. ", data.rows, data.columns, c.rows, c.columns);
  if (std::max(std::abs(range.lo), std::abs(range.hi)) > limit)
    picture.caption += fmt::format("The scale ends at ±{} {}, the {} quantile of the cells' sizes; larger ones have its last colour. ", detail::number_text(limit), data.unit,
                                   detail::number_text(data.clip_quantile, 4));
  if (c.left_out != 0) picture.caption += fmt::format("Left out: {} not finite; a cell without any other is grey. ", detail::counted(c.left_out, "value"));
  picture.caption += "Negative cells are striped.";
}

}  // namespace

scene heat_map(heat_map_data const& data) {
  if (data.rows < 0 || data.columns < 0 || std::int64_t(data.values.size()) != data.rows * data.columns)
    throw std::invalid_argument(fmt::format("heat_map '{}': {} values for {} rows of {}", data.title, data.values.size(), data.rows, data.columns));
  scene picture{data.title, "No values.", {}, 680, 60, {}};
  if (data.values.empty()) {
    picture.add(text{picture.width / 2, 34, "no values", anchor::middle, role::muted});
    return picture;
  }
  const cells c = cells_of(data);
  const double limit = limit_of(c.means, data.clip_quantile);
  const double cell_width = std::clamp(std::floor(576 / double(c.columns)), 1.0, 24.0), cell_height = std::clamp(std::floor(400 / double(c.rows)), 4.0, 24.0);
  raster map{left, top, cell_width, cell_height, int(c.columns), {}};
  for (double mean : c.means) map.levels.push_back(level_of(mean, limit));
  const double right = left + cell_width * double(c.columns), bottom = top + cell_height * double(c.rows);
  picture.width = std::max(right + 34, left + legend_cell * levels + 110);
  picture.height = bottom + 56;
  picture.add(std::move(map));
  picture.add(rectangle{left, top, right - left, bottom - top, role::axis, true});
  draw_edges(picture, data, right, bottom);
  draw_legend(picture, bottom + 22, limit, data.unit);
  describe(picture, data, c, limit);
  return picture;
}

}  // namespace stickybit::figure
