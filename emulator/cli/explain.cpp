#include "explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "commands.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/explain/figures.hpp"

namespace stickybit::cli {

void telling_options::add_to(CLI::App& command, std::vector<std::string> const& figures) {
  command.add_option("--level", level, "paragraph: a few sentences; screen: 45 lines; everything: every step bit by bit")
      ->check(CLI::IsMember({"paragraph", "screen", "everything"}))
      ->capture_default_str();
  pictures.add_to(command, figures);
  command.add_option("--color", color, "auto: where standard output is a terminal and NO_COLOR is not set")->check(CLI::IsMember({"auto", "always", "never"}))->capture_default_str();
}

detail_level telling_options::chosen_level() const {
  return level == "paragraph" ? detail_level::paragraph : level == "everything" ? detail_level::everything : detail_level::screen;
}

text_style telling_options::chosen_style() const {
  const auto set = [](const char* name) { return std::string_view(std::getenv(name) == nullptr ? "" : std::getenv(name)); };
  const bool shown = isatty(STDOUT_FILENO) == 1 && set("NO_COLOR").empty() && set("TERM") != "dumb";
  return color == "always" || (color == "auto" && shown) ? text_style::ansi : text_style::plain;
}

void telling_options::print(account const& a, std::string const& title) const {
  const auto picture = [&](std::string const& name) {
    const bool in_blocks = std::ranges::any_of(a.steps(), [](account_step const& s) { return s.op == operation::block_fma; });
    return picture_named(a, name.empty() ? in_blocks ? "block" : "rounding" : name, name_of_group, {});
  };
  pictures.write({}, [&] { return account_page(a, title, made_by()); }, picture);
  fmt::print("{}", tell(a, chosen_level(), chosen_style()));
}

std::int64_t parse_index(std::string const& text) {
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::invalid_argument(fmt::format("--at: '{}' is not an index", text));
  return index;
}

void add_explain(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand("explain", "how one result came about, from its inputs to its last bit");
  command->require_subcommand(0, 1);
  add_explain_scalars(*command);
  add_explain_products(*command, status);
  add_explain_softmax(*command, status);
  add_explain_attention(*command, status);
}

}  // namespace stickybit::cli
