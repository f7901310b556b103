#pragma once
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace stickybit::gpu {

/// main() of a check: its verdict as exit status, 0 for true and 1 for false; an exception is one line on standard error and status 2, with the
/// usage after it where the command line was wrong.
inline int run_program(char const* name, char const* usage, bool (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv) ? 0 : 1;
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "%s: %s\n%s", name, error.what(), usage);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 2;
  }
}

}  // namespace stickybit::gpu
