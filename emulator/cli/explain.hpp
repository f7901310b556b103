#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/explain/account.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/figure/page.hpp"

// The subcommands of `explain`.

namespace stickybit::cli {

/// Pictures of what is told: a whole page, or one picture for a paper or a slide.
struct picture_options {
  std::string html, svg, tex;
  std::string figure;  ///< which picture goes into svg and tex; empty: the one that suits best

  void add_to(CLI::App& command, std::vector<std::string> const& figures);
  [[nodiscard]] bool wanted() const { return !html.empty() || !svg.empty() || !tex.empty(); }
  /// Writes the files that were asked for, or none.
  /// @param page     made only where it is wanted
  /// @param picture  by name; none where the account has no such picture
  void write(std::vector<std::string> const& inputs, std::function<figure::page()> const& page, std::function<std::optional<figure::scene>(std::string const&)> const& picture) const;
};

/// --level, --color and pictures of every account.
struct telling_options {
  std::string level = "screen", color = "auto";
  picture_options pictures;

  void add_to(CLI::App& command, std::vector<std::string> const& figures = {"rounding", "block", "error", "shares"});
  [[nodiscard]] detail_level chosen_level() const;
  /// auto: colour where standard output is a terminal that shows it and NO_COLOR is not set.
  [[nodiscard]] text_style chosen_style() const;
  /// Prints the account and writes its pictures.  @param title  of the page
  void print(account const& a, std::string const& title = "Account of an operation") const;
};

/// "stickybit 0.1.0": a page's footer.
[[nodiscard]] std::string made_by(std::string const& of = {});

/// An index of --at.  @throws std::invalid_argument naming the text
[[nodiscard]] std::int64_t parse_index(std::string const& text);

/// add, fma, cast, exp2.
void add_explain_scalars(CLI::App& explain);
/// dot and gemm, with --diff: status 1 where the two units give other codes.
void add_explain_products(CLI::App& explain, int& status);
/// attention and grad, with --diff: status 1 where the two sides give other codes.
void add_explain_attention(CLI::App& explain, int& status);
/// softmax, likewise.
void add_explain_softmax(CLI::App& explain, int& status);

}  // namespace stickybit::cli
