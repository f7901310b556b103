#pragma once
#include "stickybit/machine/special_functions.hpp"

namespace stickybit {

extern const special_function_tables sm90_special_functions;

}  // namespace stickybit
