#pragma once
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

extern const attention_schedule fa3_schedule;

}  // namespace stickybit
