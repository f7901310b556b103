#include "stickybit/figure/softmax_life.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "curve.hpp"

namespace stickybit::figure {
namespace {

constexpr double width = 680, left = 70, right = 664, first_top = 36, panel = 66, pitch = 100, axis_room = 52;
constexpr int panel_count = 5;
constexpr double height = first_top + panel_count * pitch - (pitch - panel) + axis_room;

struct quantity {
  std::string_view name;
  double softmax_block::*value;
  bool from_zero;
};
constexpr quantity quantities[panel_count] = {{"running maximum of the scores", &softmax_block::max_after, false},
                                              {"rescale factor of what came before", &softmax_block::rescale, true},
                                              {"row sum", &softmax_block::row_sum, true},
                                              {"accumulated O, one element", &softmax_block::output, true},
                                              {"heaviest weight in the block", &softmax_block::heaviest_weight, true}};

bool rose(softmax_block const& b) { return b.max_after > b.max_before; }

/// Lines in every chart where the maximum rose, at most one a pixel; the first block always does, and says nothing.
std::int64_t draw_rises(scene& picture, std::vector<softmax_block> const& blocks, detail::scale const& x) {
  std::int64_t rises = 0;
  double last = -1;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (!rose(blocks[i])) continue;
    ++rises;
    const double at = std::round(x(double(i)) * 2) / 2;
    if (at < last + 1) continue;
    last = at;
    for (int p = 0; p < panel_count; ++p) picture.add(line{at, first_top + pitch * p, at, first_top + pitch * p + panel, role::highlight, 1, true});
    picture.add(triangle_mark(at, first_top, 6, 90, role::highlight, fmt::format("the maximum rises at keys {} and on", blocks[i].first_key)));
  }
  return rises;
}

void draw_panel(scene& picture, std::vector<softmax_block> const& blocks, detail::scale const& x, int index) {
  quantity const& q = quantities[index];
  const double top = first_top + pitch * index;
  std::vector<double> values;
  for (softmax_block const& b : blocks) values.push_back(b.*q.value);
  const detail::scale y(detail::interval_of(values, q.from_zero), top + panel, top);
  picture.add(text{left, top - 10, std::string(q.name), anchor::start, role::label, 12, false, true});
  detail::draw_value_axis(picture, y, left, right, 3);
  detail::draw_curve(picture, values, x, y, role::neutral, right - left);
  if (blocks.size() > 64) return;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (std::isfinite(values[i]))
      picture.add(diamond_mark(x(double(i)), y(values[i]), 3, rose(blocks[i]) ? role::highlight : role::neutral,
                                           fmt::format("keys {} to {}: {}", blocks[i].first_key, blocks[i].first_key + blocks[i].keys - 1, detail::number_text(values[i], 6))));
}

void draw_blocks(scene& picture, std::vector<softmax_block> const& blocks, detail::scale const& x) {
  const double bottom = height - axis_room;
  double last_right = -1;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    text label{x(double(i)), bottom + 18, fmt::format("{}", blocks[i].first_key), anchor::middle, role::muted, 11};
    if (extent(label).right > width || extent(label).left < last_right + 10) continue;
    last_right = extent(label).right;
    picture.add(line{label.x, bottom, label.x, bottom + 5, role::axis});
    picture.add(std::move(label));
  }
  picture.add(text{right, bottom + 38, "first key of the block, in the order taken", anchor::end, role::muted, 11});
}

}  // namespace

scene softmax_life(softmax_life_data const& data) {
  auto const& blocks = data.blocks;
  scene picture{data.title, "No blocks.", {}, width, height, {}};
  const detail::scale x({0, blocks.size() < 2 ? 1.0 : double(blocks.size() - 1)}, left + 8, right - 8);
  const std::int64_t rises = draw_rises(picture, blocks, x);
  for (int i = 0; i < panel_count; ++i) draw_panel(picture, blocks, x, i);
  draw_blocks(picture, blocks, x);
  if (blocks.empty()) return picture;
  softmax_block const& last = blocks.back();
  picture.description = fmt::format("{} of keys; the running maximum rises {} after the first block. At the end it is {}, the row sum {}, the element of O {}.",
                                    detail::counted(std::int64_t(blocks.size()), "block"), detail::counted(rises, "time"), detail::number_text(last.max_after, 6), detail::number_text(last.row_sum, 6), detail::number_text(last.output, 6));
  if (rises != 0) picture.caption = "Dashed lines: the block raised the running maximum, so everything before it was rescaled.";
  return picture;
}

}  // namespace stickybit::figure
