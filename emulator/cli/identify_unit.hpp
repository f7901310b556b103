#pragma once
#include <CLI/CLI.hpp>

namespace stickybit::cli {

/// `identify unit`
void add_identify_unit(CLI::App& identify, int& status);

}  // namespace stickybit::cli
