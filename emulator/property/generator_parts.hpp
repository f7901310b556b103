#pragma once
#include <vector>

#include "stickybit/property/generators.hpp"

namespace stickybit::detail {

void append_size_generators(std::vector<generator>& all);
void append_number_generators(std::vector<generator>& all);
void append_value_generators(std::vector<generator>& all);  // of V, of dO, overlays

}  // namespace stickybit::detail
