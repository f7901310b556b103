#include "stickybit/attention/problem.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {
namespace {

struct sizes {
  std::int64_t batch, heads, sequence, head_dim;
};

sizes sizes_of(tensor const& t, tensor_layout layout) {
  auto const& s = t.shape;
  switch (layout) {
    case tensor_layout::s_h_d: return {1, s[1], s[0], s[2]};
    case tensor_layout::b_s_h_d: return {s[0], s[2], s[1], s[3]};
    case tensor_layout::b_h_s_d: return {s[0], s[1], s[2], s[3]};
  }
  return {};
}

std::size_t rank_of(tensor_layout layout) { return layout == tensor_layout::s_h_d ? 3 : 4; }

std::string const* metadata(tensor_file const& file, std::string const& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? nullptr : &found->second;
}

tensor_layout layout_of(tensor_file const& file, problem_options const& options, tensor const& q) {
  if (options.layout) return *options.layout;
  if (auto const* text = metadata(file, "layout")) {
    try {
      return parse_layout(*text);
    } catch (std::invalid_argument const&) {
      throw file_error(file.name(), "metadata 'layout' to be s,h,d or b,s,h,d or b,h,s,d", *text);
    }
  }
  if (q.rank() == 3) return tensor_layout::s_h_d;
  if (q.rank() == 4) return tensor_layout::b_s_h_d;
  throw file_error(file.name(), "q", "rank 3 or 4", "shape " + shape_text(q.shape));
}

bool causal_of(tensor_file const& file, problem_options const& options) {
  if (options.causal) return *options.causal;
  auto const* text = metadata(file, "causal");
  if (text == nullptr || *text == "0") return false;
  if (*text == "1") return true;
  throw file_error(file.name(), "metadata 'causal' to be 0 or 1", *text);
}

double scale_of(tensor_file const& file, problem_options const& options, std::int64_t head_dim) {
  if (options.softmax_scale) return *options.softmax_scale;
  auto const* text = metadata(file, "softmax_scale");
  if (text == nullptr) return 1 / std::sqrt(double(head_dim));
  try {
    return parse_scale(*text);
  } catch (std::invalid_argument const&) {
    throw file_error(file.name(), "metadata 'softmax_scale' to be a finite number", *text);
  }
}

void check_rank(tensor_file const& file, std::string_view name, tensor const& t, tensor_layout layout) {
  if (t.rank() != rank_of(layout))
    throw file_error(file.name(), name, fmt::format("rank {} for layout {}", rank_of(layout), name_of(layout)), "shape " + shape_text(t.shape));
}

tensor const& require_in(tensor_file const& file, std::string_view name, tensor_layout layout) {
  tensor const& t = file.require(name, dtype::bf16);
  check_rank(file, name, t, layout);
  return t;
}

}  // namespace

std::int64_t whole_number(tensor_file const& file, std::string const& key, std::int64_t otherwise) {
  auto const* text = metadata(file, key);
  if (text == nullptr) return otherwise;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < 1 || value > 1'000'000)
    throw file_error(file.name(), fmt::format("metadata '{}' to be a whole number from 1 to 1000000", key), *text);
  return value;
}

tensor_layout parse_layout(std::string_view text) {
  for (tensor_layout layout : {tensor_layout::s_h_d, tensor_layout::b_s_h_d, tensor_layout::b_h_s_d})
    if (text == name_of(layout)) return layout;
  throw std::invalid_argument(fmt::format("unknown layout '{}': expected s,h,d or b,s,h,d or b,h,s,d", text));
}

std::string_view name_of(tensor_layout layout) noexcept {
  switch (layout) {
    case tensor_layout::s_h_d: return "s,h,d";
    case tensor_layout::b_s_h_d: return "b,s,h,d";
    case tensor_layout::b_h_s_d: return "b,h,s,d";
  }
  return {};
}

double parse_scale(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || !std::isfinite(static_cast<float>(value)))
    throw std::invalid_argument(fmt::format("softmax scale '{}': expected a finite FP32 number", text));
  return value;
}

std::vector<std::int64_t> attention_problem::output_shape() const {
  switch (layout) {
    case tensor_layout::s_h_d: return {queries, heads, head_dim};
    case tensor_layout::b_s_h_d: return {batch, queries, heads, head_dim};
    case tensor_layout::b_h_s_d: return {batch, heads, queries, head_dim};
  }
  return {};
}

std::vector<std::int64_t> attention_problem::key_shape() const {
  switch (layout) {
    case tensor_layout::s_h_d: return {keys, key_heads, head_dim};
    case tensor_layout::b_s_h_d: return {batch, keys, key_heads, head_dim};
    case tensor_layout::b_h_s_d: return {batch, key_heads, keys, head_dim};
  }
  return {};
}

std::vector<std::int64_t> attention_problem::row_shape() const {
  if (layout == tensor_layout::s_h_d) return {heads, queries};
  return {batch, heads, queries};
}

attention_problem read_problem(tensor_file const& file, problem_options const& options) {
  tensor const& q = file.require("q", dtype::bf16);
  const tensor_layout layout = layout_of(file, options, q);
  check_rank(file, "q", q, layout);
  tensor const& k = require_in(file, "k", layout);
  tensor const& v = require_in(file, "v", layout);
  const sizes sq = sizes_of(q, layout), sk = sizes_of(k, layout);

  const auto disagree = [&](std::string_view name, std::string const& expected, std::int64_t found) {
    throw file_error(file.name(), name, expected, fmt::format("{} (q is {}, k is {}, v is {})", found, shape_text(q.shape), shape_text(k.shape), shape_text(v.shape)));
  };
  if (v.shape != k.shape) throw file_error(file.name(), "v", "the shape of k, " + shape_text(k.shape), shape_text(v.shape));
  if (sk.batch != sq.batch) disagree("k", fmt::format("q's batch of {}", sq.batch), sk.batch);
  if (sk.head_dim != sq.head_dim) disagree("k", fmt::format("q's head dimension of {}", sq.head_dim), sk.head_dim);
  if (sk.heads == 0 || sq.heads % sk.heads != 0) disagree("k", fmt::format("a number of heads that divides q's {}", sq.heads), sk.heads);
  if (sq.head_dim == 0) disagree("q", "a head dimension above 0", 0);

  attention_problem p{.batch = sq.batch, .heads = sq.heads, .key_heads = sk.heads, .queries = sq.sequence, .keys = sk.sequence, .head_dim = sq.head_dim,
                      .layout = layout, .causal = causal_of(file, options), .softmax_scale = scale_of(file, options, sq.head_dim),
                      .call_heads = options.call_heads.value_or(0), .sm_count = options.sm_count ? *options.sm_count : whole_number(file, "sm_count", 132),
                      .q = q.elements<bf16_code>(), .k = k.elements<bf16_code>(), .v = v.elements<bf16_code>(), .d_o = {}};
  if (file.find("do") != nullptr) p.d_o = file.require("do", dtype::bf16, q.shape).elements<bf16_code>();
  return p;
}

}  // namespace stickybit
