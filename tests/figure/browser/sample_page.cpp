// sample_page OUT.html [OUT_FOLDER]: a page with every kind of content and of picture, for the browser test and for looking at. With a
// folder, each picture also as an SVG file and as TikZ.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "figure/samples.hpp"
#include "stickybit/figure/page.hpp"
#include "stickybit/figure/svg.hpp"
#include "stickybit/figure/tikz.hpp"

using namespace stickybit::figure;

namespace {

page_figure shown(scene picture, std::string caption) { return {std::move(picture), std::move(caption)}; }

table sample_table() {
  return {"Mean signed error of O by rounding point, in ulp",
          {"rounding point", "mean", "rms", "share"},
          {{"P to BF16", "−0.0412", "0.31", "61 %"}, {"rescale of O", "+0.0031", "0.02", "4 %"}, {"final cast of `O`", "−0.0007", "0.29", "1 %"}}};
}

page sample() {
  page p;
  p.title = "Why this output is wrong in its last bits";
  p.summary = "Row 217, column 5 of head 3: what was rounded, where, and which way. Every number below is computed bit for bit.";
  p.sections.push_back({"The tensor core's sum",
                        {prose{"The block adds `c` and sixteen products in fixed point. What lies below the quantum is cut off, whatever its sign, so every term that loses bits pulls the "
                               "sum toward zero."},
                         shown(aligned_bits(sample_bits(16)), "Two products lose bits, one is lost as a whole."),
                         shown(number_line(sample_rounding()), "The sum is then rounded to BF16.")}});
  p.sections.push_back({"Where the error comes from",
                        {shown(bar_chart(sample_bars()), "The cast of the weights to BF16 makes most of it."), sample_table(),
                         shown(step_chart(sample_steps(4000)), "The error grows with the keys and does not average out."),
                         shown(heat_map(sample_map(300, 128).data), "Columns with a large value share their sign.")}});
  p.sections.push_back({"One row of the softmax",
                        {shown(softmax_life(sample_life(24)), "The maximum rises four times."),
                         details{"The same in numbers", {prose{"Values as the kernel holds them."}, preformatted{"Values of the row", std::string(180, '=') + "\nkeys 0 to 127 <max> & \"sum\"\n"}}},
                         shown(aligned_bits(sample_bits(32)), "A full block of 32 products.")}});
  p.footer = "Made by stickybit from a call of 384 queries and 384 keys.";
  return p;
}

void write(std::filesystem::path const& path, std::string const& words) {
  std::ofstream file(path, std::ios::binary);
  file << words;
  if (!file.flush()) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2 || count > 3) {
    std::cerr << "usage: sample_page OUT.html [OUT_FOLDER]\n";
    return 2;
  }
  const page p = sample();
  write(arguments[1], to_html(p));
  if (count == 3) {
    int n = 0;
    for (section const& s : p.sections)
      for (content const& c : s.contents)
        if (auto const* f = std::get_if<page_figure>(&c)) {
          const auto path = std::filesystem::path(arguments[2]) / fmt::format("figure_{}", ++n);
          write(path.string() + ".svg", to_svg(f->picture));
          write(path.string() + ".tex", to_tikz(f->picture));
        }
  }
  return 0;
} catch (std::exception const& e) {
  std::cerr << "sample_page: " << e.what() << '\n';
  return 2;
}
