#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "stickybit/identify/gemm_search.hpp"

namespace stickybit {
namespace {

std::string cuts_text(std::vector<std::int64_t> const& cuts) { return fmt::format("{}", fmt::join(cuts, ",")); }

/// The value of one word of an order; "" for what it does not have.
std::string value_of_word(gemm_order const& o, std::string_view key) {
  const bool parts = o.cuts.size() > 2 || o.stream;
  if (key == "unit") return o.unit;
  if (key == "slices") return o.stream ? "" : fmt::format("{}", o.cuts.size() - 1);
  if (key == "cuts") return o.stream ? "" : cuts_text(o.cuts);
  if (key == "stream") return o.stream ? fmt::format("{}:{}", o.stream->share, o.stream->block) : "";
  if (key == "tile") return o.stream ? fmt::format("{}x{}", o.stream->tile_rows, o.stream->tile_columns) : "";
  if (key == "tiles_down") return o.stream && o.stream->down_columns ? "columns" : "";
  if (key == "interleave") return o.ways > 1 ? fmt::format("{}:{}", o.ways, o.tile / o.ways) : "";
  if (key == "short_tile") return o.short_tile_first ? fmt::format("first:{}", o.tile) : "";
  if (key == "walk") return o.tiles_descending ? fmt::format("descending:{}", o.tile) : "";
  if (key == "operands") return o.operands == operand_rounding::cut ? "" : std::string(name_of(o.operands));
  if (key == "join") return o.ways > 1 ? std::string(name_of(o.join)) : "";
  if (key == "partial") return parts ? std::string(traits_of(o.partial).name) : "";
  if (key == "running") return parts && o.running != format::f32 ? std::string(traits_of(o.running).name) : "";
  if (key == "combine") return parts ? std::string(name_of(o.combine)) : "";
  if (key == "c") return o.c_first ? "first" : "";
  throw std::invalid_argument(fmt::format("'{}' is no word of an order of additions", key));
}

constexpr std::string_view keys[] = {"unit", "slices", "cuts", "stream", "tile", "tiles_down", "interleave", "short_tile", "walk", "operands", "join", "partial", "running", "combine", "c"};

/// split_k=N is what a library was asked for: N slices, fewer where its slices reach K early, or N ways of dealing tiles.
bool same_value(gemm_order const& o, std::string_view key, std::string_view value) {
  if (key == "unit") {
    const std::vector<std::string> like = units_like(o.unit);
    return o.unit == value || std::find(like.begin(), like.end(), value) != like.end();
  }
  if (key == "split_k") {
    const std::string ways = fmt::format("{}", o.ways);
    const std::size_t slices = o.cuts.empty() ? 0 : o.cuts.size() - 1;
    return ways == value || (slices > 1 && slices <= std::strtoul(std::string(value).c_str(), nullptr, 10));
  }
  const std::string found = value_of_word(o, key);
  if (found == value) return true;
  if (key == "partial" || key == "combine") {
    if (o.ways > 1 && o.cuts.size() == 2) return value == (key == "partial" ? std::string_view("f32") : name_of(o.join));
    return key == "combine" && o.cuts.size() <= 3 && !o.stream;  // two parts have one order
  }
  return false;
}

}  // namespace

std::string text_of(gemm_order const& order, format output) {
  std::string text;
  for (std::string_view key : keys) {
    if (key == "cuts" && order.cuts.size() <= 2) continue;
    if (const std::string value = value_of_word(order, key); !value.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  }
  return text + fmt::format(" output={}", traits_of(output).name);
}

std::optional<std::string> contradiction(gemm_order const& order, format output, std::string_view statement) {
  std::istringstream words{std::string(statement)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos) throw std::invalid_argument(fmt::format("'{}' is no word of an order of additions", word));
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "output" ? value != traits_of(output).name : !same_value(order, key, value)) return word;
  }
  return std::nullopt;
}

}  // namespace stickybit
