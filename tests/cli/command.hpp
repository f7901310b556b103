#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace stickybit {

struct outcome {
  int status;
  std::string output, error;
};

/// Runs the command with a shell's words after it, its standard error apart.
inline outcome run_command(std::string const& words, std::string const& error_file) {
  const std::string line = std::string("'") + STICKYBIT_COMMAND + "' " + words + " 2>'" + error_file + "'";
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  const auto read_all = [](std::FILE* from) {
    std::string text;
    std::array<char, 4096> buffer;
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), from)) != 0;) text.append(buffer.data(), n);
    return text;
  };
  outcome result{0, read_all(pipe), {}};
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (std::FILE* errors = std::fopen(error_file.c_str(), "r")) {
    result.error = read_all(errors);
    std::fclose(errors);
  }
  return result;
}

}  // namespace stickybit
