#pragma once
#include <concepts>
#include <utility>
#include <variant>
#include <vector>

namespace stickybit {

/// A sink is anything that can be called with each event of an operation. Events are small structs that the stages
/// define beside the operation that emits them; an operation that takes a sink calls it once a step, in order.
template <class Sink, class... Events>
concept sink_of = (std::invocable<Sink&, Events const&> && ...);

/// Takes every event and does nothing: the operation compiles as if it had no trace.
struct null_sink {
  template <class Event>
  constexpr void operator()(Event const&) const noexcept {}
};

/// Keeps the events of the listed types in the order they came; ignores any other.
template <class... Events>
class recorder {
 public:
  template <class Event>
  void operator()(Event const& event) {
    if constexpr ((std::same_as<Event, Events> || ...)) events_.emplace_back(event);
  }

  [[nodiscard]] std::vector<std::variant<Events...>> const& events() const noexcept { return events_; }

  /// Every event of one type, in order.
  template <class Event>
  [[nodiscard]] std::vector<Event> all() const {
    std::vector<Event> found;
    for (auto const& event : events_)
      if (auto const* e = std::get_if<Event>(&event)) found.push_back(*e);
    return found;
  }

 private:
  std::vector<std::variant<Events...>> events_;
};

}  // namespace stickybit
