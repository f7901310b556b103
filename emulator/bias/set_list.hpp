#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace stickybit::detail {

/// Where each purpose of an attribution finds its set of points, in a list of sets that holds each once.
struct set_places {
  std::size_t count = 0;  ///< sets
  std::size_t none = 0, all = 0;
  std::vector<std::size_t> up_to, alone, without;  // by point

  /// The set that has all the points before this one.
  [[nodiscard]] std::size_t before(std::size_t point) const noexcept { return point == 0 ? none : up_to[point - 1]; }
};

/// The sets that an attribution needs.
template <class Point, class Set>
struct set_list : set_places {
  std::vector<Set> sets;

  explicit set_list(std::span<Point const> points) {
    Set growing = Set::none();
    none = place_of(growing);
    for (Point p : points) {
      up_to.push_back(place_of(growing = growing.with(p)));
      alone.push_back(place_of(Set::none().with(p)));
    }
    all = place_of(growing);
    for (Point p : points) without.push_back(place_of(growing.without(p)));
    count = sets.size();
  }

 private:
  std::size_t place_of(Set set) {
    const auto found = std::ranges::find(sets, set);
    if (found != sets.end()) return std::size_t(found - sets.begin());
    sets.push_back(set);
    return sets.size() - 1;
  }
};

}  // namespace stickybit::detail
