#include "reference_backward.hpp"

#include <fmt/format.h>

namespace stickybit::detail {

backward_result eager_backward(attention_schedule const& schedule, attention_problem const&, backward_options const&) {
  throw unsupported_call(fmt::format("schedule {}: its backward pass is not emulated", schedule.name));
}
backward_result exact_backward(attention_schedule const& schedule, attention_problem const&, backward_options const&) {
  throw unsupported_call(fmt::format("schedule {}: its backward pass is not emulated", schedule.name));
}

}  // namespace stickybit::detail
