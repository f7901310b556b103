#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "commands.hpp"

namespace {

/// CLI11 would only say that a command is required.
void refuse_unknown_command(CLI::App const& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string known;
  for (CLI::App const* command : program.get_subcommands([](CLI::App const*) { return true; })) {
    if (command->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw std::invalid_argument(fmt::format("unknown command '{}': expected one of {}", argv[1], known));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace stickybit::cli;
  CLI::App program{"stickybit: what GPU tensor cores and attention kernels compute, bit for bit, and why", "stickybit"};
  program.set_version_flag("--version", "stickybit " STICKYBIT_VERSION);
  program.require_subcommand(1);
  program.footer("Exit status: 0 equal or done; 1 a difference; 2 bad usage or a bad file.");
  int status = 0;
  add_models(program, status);
  add_explain(program, status);
  add_gemm(program, status);
  add_attention(program, status);
  add_predict(program, status);
  add_bias(program, status);
  add_compare(program, status);
  add_validate(program, status);
  add_check(program, status);
  add_study(program, status);
  add_identify(program, status);
  add_orders(program, status);
  add_reports(program, status);
  try {
    refuse_unknown_command(program, argc, argv);
    program.parse(argc, argv);
    return std::fflush(stdout) == 0 ? status : throw std::runtime_error("standard output cannot be written");
  } catch (CLI::Success const& help) {
    return program.exit(help);
  } catch (std::exception const& error) {
    std::string line = error.what();
    for (char& c : line)
      if (c == '\n' || c == '\r') c = ' ';
    fmt::print(stderr, "stickybit: {}\n", line);
    return 2;
  }
}
