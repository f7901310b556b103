#pragma once
#include <string>

#include "stickybit/attention/problem.hpp"
#include "stickybit/property/kernel.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::detail {

/// The call as a file: q, k, v, perhaps do, and the metadata that read_problem() reads.
[[nodiscard]] tensor_file call_file(attention_problem const& problem);
/// Adds what a kernel gave as <producer>.o and so on.
void add_results(tensor_file& file, attention_problem const& problem, kernel_results const& results, std::string const& producer);

}  // namespace stickybit::detail
