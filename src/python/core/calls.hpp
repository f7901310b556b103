#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "arrays.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::python {

/// An attention call from Python: arrays whose shapes stickybit/_calls.py has looked at.
struct call_arguments {
  array_of<std::uint16_t> q, k, v;
  std::optional<array_of<std::uint16_t>> d_o;
  std::string layout;
  bool causal = false;
  double softmax_scale = 1;
  std::int64_t call_heads = 0, sm_count = 132;
};
[[nodiscard]] attention_problem problem_of(call_arguments const& c);

/// "fa3", with a unit in place of its own where given, with fixes.
[[nodiscard]] attention_schedule schedule_of(std::string const& name, std::optional<std::string> const& unit, std::string const& fix);

/// An estimate of the work, in products; below `short_call` a call takes a few milliseconds.
[[nodiscard]] bool is_short_call(attention_problem const& p, bool backward, std::string const& engine) noexcept;

}  // namespace stickybit::python
