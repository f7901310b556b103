#pragma once
#include <cstdint>
#include <initializer_list>

namespace stickybit {

/// A set of rounding points: those that round.
/// @tparam All  the array of every Point, in the order of their values from 0 on
template <class Point, auto const& All>
class point_set {
 public:
  [[nodiscard]] static constexpr point_set none() noexcept { return {}; }
  [[nodiscard]] static constexpr point_set all() noexcept { return point_set((std::uint32_t{1} << All.size()) - 1); }
  constexpr point_set(std::initializer_list<Point> points) noexcept {
    for (Point p : points) bits_ |= bit(p);
  }
  [[nodiscard]] constexpr point_set with(Point p) const noexcept { return point_set(bits_ | bit(p)); }
  [[nodiscard]] constexpr point_set without(Point p) const noexcept { return point_set(bits_ & ~bit(p)); }
  [[nodiscard]] constexpr point_set among(point_set others) const noexcept { return point_set(bits_ & others.bits_); }
  [[nodiscard]] constexpr bool has(Point p) const noexcept { return (bits_ & bit(p)) != 0; }
  [[nodiscard]] constexpr bool contains(point_set others) const noexcept { return (others.bits_ & ~bits_) == 0; }
  friend constexpr bool operator==(point_set, point_set) noexcept = default;

 private:
  static_assert(All.size() < 32);
  constexpr point_set() noexcept = default;
  explicit constexpr point_set(std::uint32_t bits) noexcept : bits_(bits) {}
  static constexpr std::uint32_t bit(Point p) noexcept { return std::uint32_t{1} << unsigned(p); }
  std::uint32_t bits_ = 0;
};

}  // namespace stickybit
