#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stickybit/attention/forward.hpp"

namespace stickybit {

struct probed_row {
  std::int64_t batch, head, row;
};

/// Chosen rows of one call under many schedules: what does not depend on the schedule is computed once. For searches.
class forward_probe {
 public:
  /// The problem must outlive it.  @throws std::out_of_range for a row that is not there
  forward_probe(attention_problem const& problem, std::vector<probed_row> rows);
  ~forward_probe();
  forward_probe(forward_probe const&) = delete;
  forward_probe& operator=(forward_probe const&) = delete;

  /// O [rows × d] and lse [rows], as attention_forward gives them.  @throws as attention_forward; unsupported_call unless block by block
  [[nodiscard]] forward_result run(attention_schedule const& schedule);
  /// The same of `count` rows from `first` on.  @pre first + count ≤ rows().size()
  [[nodiscard]] forward_result run(attention_schedule const& schedule, std::size_t first, std::size_t count);

  [[nodiscard]] std::vector<probed_row> const& rows() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace stickybit
