#include <fmt/format.h>

#include <array>
#include <string>

#include "fa3.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

std::span<attention_schedule const> all_attention_schedules() noexcept { return {&fa3_schedule, 1}; }

attention_schedule const& attention_schedule_named(std::string_view name) {
  std::string known;
  for (attention_schedule const& schedule : all_attention_schedules()) {
    if (schedule.name == name) return schedule;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", schedule.name);
  }
  throw unknown_name(fmt::format("unknown schedule '{}': expected one of {}", name, known));
}

forward_tile const* forward_tile_of(attention_schedule const& schedule, std::int64_t head_dim, bool causal) noexcept {
  for (forward_tile const& tile : schedule.forward_tiles)
    if (tile.head_dim == head_dim && tile.causal == causal) return &tile;
  return nullptr;
}

}  // namespace stickybit
