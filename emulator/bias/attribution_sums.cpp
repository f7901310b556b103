#include "attribution_sums.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/bias/statistics.hpp"

namespace stickybit::detail {

void attributed_row::add(set_places const& list, double const* errors, std::size_t stride, double ulp, double direction) {
  points.resize(list.up_to.size());
  bool finite = std::isfinite(direction);
  for (std::size_t set = 0; set < list.count; ++set) finite = finite && std::isfinite(errors[set * stride]);
  (finite ? counted : left_out) += 1;
  if (!finite || ulp == 0) return;
  ++scaled;
  const double per_ulp = 1 / ulp, along = direction * per_ulp;  // an ulp is a power of two
  const auto error = [&](std::size_t set) { return errors[set * stride] * per_ulp; };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double split = error(list.up_to[i]) - error(list.before(i)), alone = error(list.alone[i]), without = error(list.without[i]);
    point& p = points[i];
    p.split += split, p.split_squares += split * split, p.along += split * along;
    p.alone += alone, p.alone_along += alone * along;
    p.without += without, p.without_along += without * along;
  }
  const double whole = error(list.all);
  total += whole, total_squares += whole * whole, total_along += whole * along;
  direction_squares += along * along;
}

void attributed_row::in_units_of(double ulp) {
  if (ulp == 0) {
    scaled = 0;
    return;
  }
  const double once = 1 / ulp, twice = once * once;
  for (point& p : points) {
    for (double* x : {&p.split, &p.alone, &p.without}) *x *= once;
    for (double* x : {&p.split_squares, &p.along, &p.alone_along, &p.without_along}) *x *= twice;
  }
  total *= once;
  for (double* x : {&total_squares, &total_along, &direction_squares}) *x *= twice;
}

namespace {

/// Adds the head's parts along its direction to those of the others, each for a direction of length 1.
/// @returns whether it has a direction
bool add_direction(attributed_row const& head, attributed_row& all) {
  if (!(head.direction_squares > 0)) return false;
  const double per_length = 1 / std::sqrt(head.direction_squares);
  all.total_along += head.total_along * per_length;
  for (std::size_t i = 0; i < all.points.size(); ++i) {
    all.points[i].along += head.points[i].along * per_length;
    all.points[i].alone_along += head.points[i].alone_along * per_length;
    all.points[i].without_along += head.points[i].without_along * per_length;
  }
  return true;
}

/// Everything but what is counted by row.
void add_sums(attributed_row const& row, attributed_row& head) {
  head.scaled += row.scaled;
  head.total_squares += row.total_squares;
  head.total_along += row.total_along;
  head.direction_squares += row.direction_squares;
  for (std::size_t i = 0; i < head.points.size(); ++i) {
    head.points[i].split_squares += row.points[i].split_squares;
    head.points[i].along += row.points[i].along;
    head.points[i].alone_along += row.points[i].alone_along;
    head.points[i].without_along += row.points[i].without_along;
  }
}

}  // namespace

tensor_attribution summarize(std::span<attributed_row const> rows, std::int64_t rows_of_head, std::span<std::string const> names) {
  tensor_attribution result;
  running_moments totals;
  std::vector<running_moments> split(names.size()), alone(names.size()), without(names.size());
  attributed_row all, none;
  none.points.resize(names.size());
  all = none;
  std::int64_t directions = 0;
  for (std::size_t first = 0; first < rows.size(); first += std::size_t(rows_of_head)) {
    attributed_row head = none;
    for (attributed_row const& row : rows.subspan(first, std::size_t(rows_of_head))) {
      result.counted += row.counted;
      result.left_out += row.left_out;
      if (row.scaled == 0) continue;
      add_sums(row, head);
      const double n = double(row.scaled);
      totals.add(row.total / n);
      for (std::size_t i = 0; i < names.size(); ++i) {
        split[i].add(row.points[i].split / n);
        alone[i].add(row.points[i].alone / n);
        without[i].add(row.points[i].without / n);
      }
    }
    all.scaled += head.scaled;
    all.total_squares += head.total_squares;
    for (std::size_t i = 0; i < names.size(); ++i) all.points[i].split_squares += head.points[i].split_squares;
    directions += add_direction(head, all);
  }
  const double elements = double(std::max<std::int64_t>(1, all.scaled)), along = 1 / std::sqrt(elements * double(std::max<std::int64_t>(1, directions)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    attributed_row::point const& p = all.points[i];
    result.points.push_back({names[i], split[i].mean(), split[i].standard_error(), std::sqrt(p.split_squares / elements), alone[i].mean(), without[i].mean(),
                             p.along * along, p.alone_along * along, p.without_along * along});
  }
  result.mean_signed_error_ulp = totals.mean();
  result.rms_error_ulp = std::sqrt(all.total_squares / elements);
  result.along_direction = all.total_along * along;
  return result;
}

}  // namespace stickybit::detail
