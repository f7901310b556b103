#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/figure/svg.hpp"
#include "stickybit/figure/tikz.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {

std::string made_by(std::string const& of) { return fmt::format("Made by stickybit {}{}{}.", STICKYBIT_VERSION, of.empty() ? "" : " from ", of); }

void picture_options::add_to(CLI::App& command, std::vector<std::string> const& figures) {
  command.add_option("--html", html, "HTML file to write: one page with pictures that needs no network");
  command.add_option("--svg", svg, "SVG file to write: one picture, for a slide");
  command.add_option("--tex", tex, "TeX file to write: the same picture as a tikzpicture, for a paper");
  command.add_option("--figure", figure, "which picture --svg and --tex hold (default: the one that suits best)")->check(CLI::IsMember(figures));
}

void picture_options::write(std::vector<std::string> const& inputs, std::function<figure::page()> const& page,
                            std::function<std::optional<figure::scene>(std::string const&)> const& picture) const {
  if (!figure.empty() && svg.empty() && tex.empty()) throw std::invalid_argument(fmt::format("--figure {}: expected --svg or --tex, which hold it", figure));
  if (!wanted()) return;
  require_separate_files(inputs, {html, svg, tex});
  std::vector<std::unique_ptr<output_file>> files;
  std::vector<std::string> contents;
  const auto open = [&](std::string const& path) {
    if (!path.empty()) files.push_back(std::make_unique<output_file>(path));
    return !path.empty();
  };
  if (open(html)) contents.push_back(to_html(page()));
  if (!svg.empty() || !tex.empty()) {
    const std::optional<figure::scene> drawn = picture(figure);
    if (!drawn) throw std::invalid_argument(figure.empty() ? std::string("--svg, --tex: there is nothing in this account to draw") : fmt::format("--figure {}: this account has no such picture", figure));
    if (open(svg)) contents.push_back(to_svg(*drawn));
    if (open(tex)) contents.push_back(to_tikz(*drawn));
  }
  for (std::size_t i = 0; i < files.size(); ++i) files[i]->write(contents[i]);
  for (auto& file : files) file->commit();
}

}  // namespace stickybit::cli
