#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "stickybit/explain/account.hpp"
#include "stickybit/explain/teller.hpp"

// The subcommands of `explain`.

namespace stickybit::cli {

/// --level and --color of every account.
struct telling_options {
  std::string level = "screen", color = "auto";

  void add_to(CLI::App& command);
  [[nodiscard]] detail_level chosen_level() const;
  /// auto: colour where standard output is a terminal that shows it and NO_COLOR is not set.
  [[nodiscard]] text_style chosen_style() const;
  void print(account const& a) const;
};

/// An index of --at.  @throws std::invalid_argument naming the text
[[nodiscard]] std::int64_t parse_index(std::string const& text);

/// add, fma, cast, exp2.
void add_explain_scalars(CLI::App& explain);
/// dot and gemm, with --diff: status 1 where the two units give other codes.
void add_explain_products(CLI::App& explain, int& status);
/// attention and grad, with --diff: status 1 where the two sides give other codes.
void add_explain_attention(CLI::App& explain, int& status);

}  // namespace stickybit::cli
