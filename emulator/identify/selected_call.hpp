#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/identify/backward_search.hpp"

namespace stickybit::detail {

inline bool same(bf16_code a, bf16_code b) { return a == b || (a.is_nan() && b.is_nan()); }

/// One key head of a call with the query heads that share it.
struct head_group {
  std::int64_t batch, key_head;
  friend bool operator==(head_group const&, head_group const&) = default;
};

/// Some rows and some keys of one head group as a call of its own. With every row dV and dK of its keys are the whole call's; with every
/// key dQ of its rows is, for a row's lse and delta come with it and no row meets another.
class selected_call {
 public:
  /// @param rows, keys  ascending
  selected_call(attention_problem const& whole, forward_result const& forward, captured_gradients const& captured, head_group group,
                std::vector<std::int64_t> rows, std::vector<std::int64_t> keys);

  /// Codes of the stage's gradient that the schedule gives otherwise.  @throws unsupported_call
  /// @param matrices  where given, grows by a number that every code of P and dS decides
  [[nodiscard]] std::int64_t mismatches(attention_schedule const& schedule, gradient_stage stage, std::uint64_t* matrices = nullptr) const;

  [[nodiscard]] head_group group() const noexcept { return group_; }
  [[nodiscard]] std::vector<std::int64_t> const& rows() const noexcept { return rows_; }
  [[nodiscard]] std::vector<std::int64_t> const& keys() const noexcept { return keys_; }

 private:
  std::vector<std::int64_t> visible(attention_schedule const& schedule) const;

  attention_problem const& whole_;
  head_group group_;
  std::vector<std::int64_t> rows_, keys_;
  attention_problem problem_;  // layout b,h,s,d
  forward_result forward_;
  captured_gradients captured_;
};

}  // namespace stickybit::detail
