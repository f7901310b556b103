#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "kernels.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit {

std::span<attention_schedule const> all_attention_schedules() noexcept {
  using namespace kernels;
  static const std::array schedules{fa3,  fa2,       fa2_torch,      fa2_torch_splitkv, cudnn,           efficient, flex,
                                    flex_long, triton_m64_n64, triton_m64_n32, triton_m128_n64, stickybit_sm80, stickybit_sm90, eager_bf16, paper_v2,  exact};
  return schedules;
}

attention_schedule const& attention_schedule_named(std::string_view name) {
  std::string known;
  for (attention_schedule const& schedule : all_attention_schedules()) {
    if (schedule.name == name) return schedule;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", schedule.name);
  }
  throw unknown_name(fmt::format("unknown schedule '{}': expected one of {}", name, known));
}

attention_tile const* tile_of(std::span<attention_tile const> tiles, std::int64_t head_dim, bool causal) noexcept {
  for (attention_tile const& tile : tiles)
    if (tile.causal == causal && (tile.head_dim == head_dim || tile.key_columns == 0)) return &tile;
  return nullptr;
}

std::uint32_t scale_log2_bits(scale_form form, double softmax_scale) noexcept {
  constexpr double log2_e = 0x1.71547652b82fep+0;  // M_LOG2E
  const auto narrow = static_cast<float>(softmax_scale);
  switch (form) {
    case scale_form::double_product: return std::bit_cast<std::uint32_t>(static_cast<float>(double{narrow} * log2_e));
    case scale_form::float_product: return std::bit_cast<std::uint32_t>(narrow * static_cast<float>(log2_e));
    case scale_form::wide_scale: return std::bit_cast<std::uint32_t>(static_cast<float>(softmax_scale * log2_e));
  }
  return 0;
}

std::int64_t flash_attention_2_splits(std::int64_t rows_of_tiles, std::int64_t key_blocks, std::int64_t sm_count) noexcept {
  const std::int64_t slots = 2 * sm_count, most = std::min({std::int64_t{128}, slots, key_blocks});
  if (float(rows_of_tiles) >= 0.8f * float(slots)) return 1;
  const auto blocks_each = [&](std::int64_t splits) { return (key_blocks + splits - 1) / splits; };
  const auto eligible = [&](std::int64_t splits) { return splits == 1 || blocks_each(splits) != blocks_each(splits - 1); };
  const auto efficiency = [&](std::int64_t splits) {
    const float waves = float(rows_of_tiles * splits) / float(slots);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::int64_t n = 1; n <= most; ++n)
    if (eligible(n)) best = std::max(best, efficiency(n));
  for (std::int64_t n = 1; n <= most; ++n)
    if (eligible(n) && efficiency(n) >= 0.85 * best) return n;
  return 1;
}

}  // namespace stickybit
