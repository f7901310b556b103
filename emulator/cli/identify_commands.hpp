#pragma once
#include <CLI/CLI.hpp>

namespace stickybit::cli {

// Parts of `stickybit identify`, each of which adds itself to it.
void add_identify_gemm(CLI::App& identify, int& status);
void add_identify_unit(CLI::App& identify, int& status);

}  // namespace stickybit::cli
