#include "identify/gemm_candidates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

namespace stickybit::detail {
namespace {

using cut_list = std::vector<std::int64_t>;

constexpr std::int64_t most_slices = 64;
/// k that a slice may be a multiple of. @source seen: 8 (SIMT), 16 to 128 (tensor cores) in cuBLAS of CUDA 13.0
constexpr std::array<std::int64_t, 8> granules{64, 32, 16, 128, 256, 8, 4, 1};
constexpr std::array<std::int64_t, 5> tiles{8, 16, 32, 64, 128};

/// Multiples of `step` below K.
cut_list equal_cuts(std::int64_t k, std::int64_t step) {
  cut_list cuts{0};
  for (std::int64_t at = step; at < k; at += step) cuts.push_back(at);
  cuts.push_back(k);
  return cuts;
}

/// Slices of `less` or `less` + 1 granules; the larger ones first or last. The last takes what is no whole granule.
cut_list uneven_cuts(std::int64_t k, std::int64_t granule, std::int64_t slices, bool larger_first) {
  const std::int64_t units = k / granule, less = units / slices, larger = units % slices;
  cut_list cuts{0};
  for (std::int64_t s = 0; s + 1 < slices; ++s) cuts.push_back(cuts.back() + granule * (less + (larger_first ? s < larger : s >= slices - larger)));
  cuts.push_back(k);
  return cuts;
}

/// Whole slices of floor(units / slices) granules; the last takes all the rest.
cut_list long_last_cuts(std::int64_t k, std::int64_t granule, std::int64_t slices) {
  const std::int64_t step = k / granule / slices * granule;
  cut_list cuts;
  for (std::int64_t s = 0; s < slices; ++s) cuts.push_back(s * step);
  cuts.push_back(k);
  return cuts;
}

bool ascends(cut_list const& cuts) { return std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end(); }

}  // namespace

std::vector<cut_list> regular_cuts(std::int64_t k, std::int64_t finest) {
  std::set<cut_list> seen;
  std::vector<cut_list> found;
  const auto add = [&](cut_list cuts) {
    if (ascends(cuts) && seen.insert(cuts).second) found.push_back(std::move(cuts));
  };
  add({0, k});
  for (std::int64_t granule : granules)
    for (std::int64_t slices = 2; slices <= most_slices && granule >= finest; ++slices) {
      const std::int64_t units = (k + granule - 1) / granule, step = (units + slices - 1) / slices * granule;
      if (units < slices) break;
      add(equal_cuts(k, step));
      if (k / granule >= slices) {
        add(long_last_cuts(k, granule, slices));
        add(uneven_cuts(k, granule, slices, true));
        add(uneven_cuts(k, granule, slices, false));
      }
    }
  for (std::int64_t step : {16, 32, 64, 128, 256, 512, 1024})
    if (step < k) add(equal_cuts(k, step));
  return found;
}

std::vector<gemm_order> order_shapes(std::string const& unit, std::int64_t block, operand_rounding operands, std::int64_t k) {
  const bool fma = unit == fma_unit;
  std::vector<gemm_order> shapes;
  for (cut_list const& cuts : regular_cuts(k, fma || k % 8 != 0 ? 1 : 8)) {
    gemm_order plain{.unit = unit, .operands = operands, .cuts = cuts, .stream = {}};
    shapes.push_back(plain);
    std::int64_t longest = 0, shortest = k;  // shortest: but for the last
    bool incomplete = false;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      longest = std::max(longest, cuts[s + 1] - cuts[s]);
      if (s + 2 < cuts.size()) shortest = std::min(shortest, cuts[s + 1] - cuts[s]);
    }
    for (std::int64_t tile : tiles) {
      if (tile >= longest) break;
      if (tile < block) continue;
      gemm_order walked = plain;
      walked.tile = tile;
      incomplete = false;
      for (std::size_t s = 0; s + 1 < cuts.size(); ++s) incomplete |= (cuts[s + 1] - cuts[s]) % tile != 0;
      if (incomplete && (!fma || tile >= 8)) {
        walked.short_tile_first = true;
        if (!fma) shapes.push_back(walked);
        walked.short_tile_first = false;
      }
      if (tile >= 16) {
        walked.tiles_descending = true;
        shapes.push_back(walked);
        walked.tiles_descending = false;
      }
    }
    for (std::int64_t part : {1, 2, 4, 8, 16, 32, 64})
      for (int ways : {2, 3, 4, 5, 6, 7, 8, 12, 16, 32}) {
        if (part * ways > shortest || part * ways > longest || part < block || (!fma && part < 8)) continue;
        if (cuts.size() > (fma || ways > 4 ? 5u : 34u)) continue;
        gemm_order dealt = plain;
        dealt.tile = part * ways;
        dealt.ways = ways;
        shapes.push_back(dealt);
        bool rest = false;
        for (std::size_t s = 0; s + 1 < cuts.size(); ++s) rest |= (cuts[s + 1] - cuts[s]) % dealt.tile != 0;
        if (!rest) continue;
        dealt.short_tile_first = true;
        shapes.push_back(dealt);
      }
  }
  return shapes;
}

namespace {

/// Orders of additions that differ for so many parts.
std::vector<sum_order> orders_for(std::size_t parts) {
  if (parts <= 2) return {sum_order::ascending};
  if (parts == 3) return {sum_order::ascending, sum_order::descending, sum_order::halves};
  return {sum_order::ascending, sum_order::descending, sum_order::neighbours, sum_order::halves};
}

}  // namespace

gemm_order with_sums(gemm_order order, sum_choice const& sums) {
  order.join = sums.join;
  order.partial = sums.partial;
  order.combine = sums.combine;
  order.running = sums.running;
  order.c_first = sums.c_first;
  return order;
}

std::vector<sum_choice> sum_choices(int ways, std::size_t slices, format output, bool with_c) {
  std::vector<format> formats{format::f32};
  if (slices > 1) {
    if (output != format::f32) formats.push_back(output);
    else formats.insert(formats.end(), {format::bf16, format::f16});  // an FP32 output may be a sum of half-wide partial sums
  }
  std::vector<sum_choice> choices;
  for (sum_order join : orders_for(std::size_t(ways)))
    for (format partial : formats)
      for (format running : formats)
        for (sum_order combine : orders_for(slices))
          for (bool c_first : {false, true}) {
            const bool two_half_formats = running != format::f32 && partial != format::f32 && running != partial;
            if (!two_half_formats && (with_c || !c_first)) choices.push_back({join, partial, combine, running, c_first});
          }
  return choices;
}

std::size_t most_slices_of(gemm_order const& order, std::int64_t k, std::int64_t rows, std::int64_t columns) {
  if (!order.stream) return order.cuts.size() - 1;
  stream_cuts const& s = *order.stream;
  const std::int64_t blocks = (k + s.block - 1) / s.block, tiles = ((rows + s.tile_rows - 1) / s.tile_rows) * ((columns + s.tile_columns - 1) / s.tile_columns);
  std::int64_t most = 1;
  // The places of cuts repeat after `share` tiles at the latest.
  for (std::int64_t tile = 0; tile < std::min(tiles, s.share); ++tile) most = std::max(most, ((tile + 1) * blocks - 1) / s.share - tile * blocks / s.share + 1);
  return std::size_t(most);
}

std::vector<gemm_order> stream_orders(std::string const& unit, operand_rounding operands, std::int64_t rows, std::int64_t columns, std::int64_t k) {
  constexpr std::int64_t most_programs = 528;  // four on each of 132 multiprocessors
  std::vector<gemm_order> orders;
  for (std::int64_t block : {64, 32, 128})
    for (std::int64_t tile_rows : {64, 128, 256, 32, 16, 192})
      for (std::int64_t tile_columns : {64, 128, 256, 32, 16, 192})
        for (bool down : {false, true}) {
          const auto parts = [](std::int64_t length, std::int64_t part) { return (length + part - 1) / part; };
          const std::int64_t across = parts(columns, tile_columns), along = parts(rows, tile_rows), total = across * along * parts(k, block);
          if ((tile_rows > rows && tile_rows > 64) || (tile_columns > columns && tile_columns > 64) || (down && (across == 1 || along == 1))) continue;
          std::int64_t last = 0;
          for (std::int64_t programs = 2; programs <= std::min(most_programs, total); ++programs) {
            const std::int64_t share = parts(total, programs);
            if (share == last || share % parts(k, block) == 0) continue;
            last = share;
            gemm_order o{.unit = unit, .operands = operands, .cuts = {}, .stream = stream_cuts{share, block, tile_rows, tile_columns, down}};
            orders.push_back(std::move(o));
          }
        }
  return orders;
}

int complexity(gemm_order const& o) {
  int steps = int(o.cuts.size()) + (o.stream ? 40 : 0) + (o.ways > 1 ? 30 + o.ways : 0) + (o.short_tile_first ? 20 : 0) + (o.tiles_descending ? 30 : 0);
  steps += 10 * int(o.join != sum_order::ascending) + 10 * int(o.combine != sum_order::ascending) + 15 * int(o.partial != format::f32) + 15 * int(o.running != format::f32);
  return steps + (o.combine == sum_order::any ? 100 : 0) + (o.operands == operand_rounding::cut ? 0 : 5);
}

std::string signature(gemm_order const& o, std::int64_t k, std::int64_t block) {
  if (o.stream) {
    gemm_order shared = o;  // the same cuts whatever the block, where K is whole blocks
    shared.stream->share *= o.stream->block;
    shared.stream->block = k % o.stream->block == 0 ? 1 : o.stream->block;
    return text_of(shared, format::f32);
  }
  std::string text = o.unit + std::string(name_of(o.operands));
  std::size_t chains = 0;
  for (std::size_t s = 0; s + 1 < o.cuts.size(); ++s) {
    for (int way = 0; way < o.ways; ++way, ++chains) {
      text += '|';
      std::int64_t last = -1;
      for (k_run run : runs_of(o, o.cuts[s], o.cuts[s + 1], way)) {
        if (run.begin != last) text += fmt::format(" {}", run.begin);
        const bool whole = (run.end - run.begin) % block == 0;
        last = whole ? run.end : -1;
        if (!whole) text += fmt::format("-{}", run.end);
        else if (run.end == k) text += "-";
      }
    }
    text += '/';
  }
  const bool one_slice = o.cuts.size() == 2;
  std::erase(text, '/');
  const sum_order outer = one_slice ? o.join : o.combine;
  text += fmt::format(" {} {} {} {}", one_slice || o.ways == 1 ? name_of(outer) : fmt::format("{}+{}", name_of(o.join), name_of(o.combine)), int(o.running),
                      int(o.running == o.partial || one_slice ? o.running : o.partial), o.c_first);
  if (!one_slice && o.ways > 1) text += fmt::format(" {}", fmt::join(o.cuts, ","));
  return text;
}

}  // namespace stickybit::detail
