// Printed by test_property "[.print-holdings]"; compared with a search by test_property "property table*".
#include "known_holdings.hpp"

#include <algorithm>
#include <array>

namespace stickybit::detail {
namespace {

struct known_row {
  std::string_view property, holds;
};
constexpr std::array<std::string_view, 16> schedules{"fa3", "fa2", "fa2-torch", "fa2-torch-splitkv", "cudnn", "efficient", "flex", "flex-long", "triton-m64-n64", "triton-m64-n32", "triton-m128-n64", "stickybit-sm80", "stickybit-sm90", "eager-bf16", "paper-v2", "exact"};
constexpr std::array<known_row, 23> rows{
    known_row{"determinism", "eeeeeeeeeeeeeeee"},
    known_row{"near-exact", "aaaaaaaaaaaaanae"},
    known_row{"lse-near-exact", "aaaaaaaaaaaaanae"},
    known_row{"weights-sum-to-one", "aaaaaaaaaaaaaaaa"},
    known_row{"value-one", "aaaaaaaaaaaaaaae"},
    known_row{"value-range", "aaaaaaaaaaaaaaae"},
    known_row{"one-key", "eeeeeeeeeeeeeeee"},
    known_row{"key-copies", "eeeeeeeeeeeeeeee"},
    known_row{"key-order", "aaaaaaaaaaaaaaae"},
    known_row{"values-scaled", "eeeeeeeeeeeeeeee"},
    known_row{"scores-scaled", "eeeeeeeeeeeeeeee"},
    known_row{"score-shift", "aaaaaaaaaaaaanee"},
    known_row{"causal-future", "eeeeeeeeeeeeeeee"},
    known_row{"masked-nan", "nnnnnnnnnnnnnnne"},
    known_row{"head-independence", "eeeeeeeeeeeeeeee"},
    known_row{"row-independence", "eeeene-eeeeeeeee"},
    known_row{"gradients-near-exact", "aaaaaa-----a-naa"},
    known_row{"ds-sums-to-zero", "aaaaaa-----a-aaa"},
    known_row{"dk-sums-to-zero", "aaaaaa-----a-aaa"},
    known_row{"dq-key-offset", "aaaaaa-----a-aaa"},
    known_row{"dv-sums-to-do", "aaaaaa-----a-aaa"},
    known_row{"zero-gradient", "eeeeee-----e-eee"},
    known_row{"gradient-scaled", "eeeeee-----e-eee"},
};

}  // namespace

std::optional<holding> known_holding_of(std::string_view schedule, std::string_view property) noexcept {
  const auto column = std::find(schedules.begin(), schedules.end(), schedule) - schedules.begin();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](known_row const& r) { return r.property == property; });
  if (row == rows.end() || column == std::ptrdiff_t(schedules.size())) return std::nullopt;
  switch (row->holds[std::size_t(column)]) {
    case 'e': return holding::exactly;
    case 'a': return holding::approximately;
    case 'n': return holding::no;
    default: return holding::untested;
  }
}

}  // namespace stickybit::detail
