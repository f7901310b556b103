#pragma once
#include <algorithm>
#include <iterator>
#include <numeric>

#include "stickybit/attention/dq_orders.hpp"
#include "stickybit/rounding/stochastic.hpp"

// Orders of key blocks, and the parts of dQ of one head that are added in them.

namespace stickybit::detail {

using order = std::vector<std::uint32_t>;  // of key blocks

/// Another stream for each number of the same seed.
inline random_words stream_of(std::uint64_t seed, std::uint64_t number) noexcept {
  const auto word = [](random_words random) {
    const std::uint64_t high = random().bits;
    return high << 32 | random().bits;
  };
  return random_words(word(random_words(seed)) ^ word(random_words(number)));
}

/// Fisher and Yates: every order equally likely but for 2^-29.
inline void shuffle(std::span<std::uint32_t> o, random_words& random) noexcept {
  for (std::size_t n = o.size(); n > 1; --n) std::swap(o[n - 1], o[std::size_t(std::uint64_t{random().bits} * n >> 32)]);
}

inline order ascending(std::int64_t blocks) {
  order o(static_cast<std::size_t>(blocks));
  std::iota(o.begin(), o.end(), 0u);
  return o;
}

inline std::vector<order> drawn_orders(std::int64_t blocks, dq_order_options const& options) {
  random_words random(options.seed);
  std::vector<order> drawn(std::size_t(options.tries), ascending(blocks));
  for (order& o : drawn) shuffle(o, random);
  return drawn;
}

/// Ascending, descending and their rotations, then drawn ones.
inline std::vector<order> searched_orders(std::int64_t blocks, dq_order_options const& options) {
  std::vector<order> orders;
  const order up = ascending(blocks), down(up.rbegin(), up.rend());
  for (std::size_t i = 0; i < up.size(); ++i)
    for (order const& from : {up, down}) {
      orders.push_back(from);
      std::rotate(orders.back().begin(), orders.back().begin() + std::ptrdiff_t(i), orders.back().end());
    }
  const std::vector<order> drawn = drawn_orders(blocks, options);
  orders.insert(orders.end(), drawn.begin(), drawn.end());
  return orders;
}

inline std::vector<order> all_orders(std::int64_t blocks) {
  std::vector<order> orders;
  order o = ascending(blocks);
  do orders.push_back(o);
  while (std::next_permutation(o.begin(), o.end()));
  return orders;
}

// The parts of one head.

struct head_parts {
  std::int64_t batch, head;
  std::size_t rows, blocks, d;
  std::vector<f32_code> parts;          // [s × blocks × d]
  std::vector<std::uint8_t> visited;    // [s × blocks]

  /// The blocks that give the row a part, ascending.
  [[nodiscard]] order blocks_of(std::int64_t row) const {
    order of;
    for (std::size_t i = 0; i < blocks; ++i)
      if (visited[std::size_t(row) * blocks + i] != 0) of.push_back(std::uint32_t(i));
    return of;
  }
  /// One element's part of every block; nothing is said of blocks that give none.
  void gather(std::int64_t row, std::size_t column, std::span<f32_code> to) const {
    for (std::size_t i = 0; i < blocks; ++i) to[i] = parts[(std::size_t(row) * blocks + i) * d + column];
  }
  /// What a row takes of an order of all blocks.
  [[nodiscard]] order taken(order const& all, std::int64_t row) const {
    order o;
    std::copy_if(all.begin(), all.end(), std::back_inserter(o), [&](std::uint32_t i) { return visited[std::size_t(row) * blocks + i] != 0; });
    return o;
  }
  [[nodiscard]] std::vector<order> taken(std::vector<order> const& all, std::int64_t row) const {
    std::vector<order> o;
    for (order const& x : all) o.push_back(taken(x, row));
    return o;
  }
};

template <class Code>
std::vector<Code> rows_of(std::vector<Code> const& from, row_strides s, std::int64_t b, std::int64_t h, std::int64_t rows, std::int64_t d) {
  std::vector<Code> to;
  if (from.empty()) return to;
  to.reserve(std::size_t(rows * d));
  for (std::int64_t i = 0; i < rows; ++i) to.insert(to.end(), from.begin() + s.offset(b, h, i), from.begin() + s.offset(b, h, i) + d);
  return to;
}

/// The parts of one head, by a backward pass of that head alone: how many others there are changes no part.
inline head_parts parts_of(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, std::int64_t blocks, std::int64_t b,
                    std::int64_t head, engine how, progress const& report) {
  head_parts h{b, head, std::size_t(p.queries), std::size_t(blocks), std::size_t(p.head_dim), {}, {}};
  h.parts.assign(h.rows * h.blocks * h.d, f32_code::zero());
  h.visited.assign(h.rows * h.blocks, 0);
  const auto query_rows = [&](auto const& m) { return rows_of(m, p.query_strides(), b, head, p.queries, p.head_dim); };
  const auto key_rows = [&](auto const& m) { return rows_of(m, p.key_strides(), b, p.key_head_of(head), p.keys, p.head_dim); };
  attention_problem single{.batch = 1, .heads = 1, .key_heads = 1, .queries = p.queries, .keys = p.keys, .head_dim = p.head_dim, .layout = tensor_layout::s_h_d,
                           .causal = p.causal, .softmax_scale = p.softmax_scale, .call_heads = p.call_heads, .sm_count = p.sm_count,
                           .q = query_rows(p.q), .k = key_rows(p.k), .v = key_rows(p.v), .d_o = query_rows(p.d_o)};
  const auto first = forward.lse.begin() + (b * p.heads + head) * p.queries;
  const forward_result stored{.o = query_rows(forward.o), .lse = {first, first + p.queries}, .o_f32 = query_rows(forward.o_f32)};
  backward_options options;
  options.how = how;
  options.report = report;
  // Each call has its own place: a row and block comes once.
  options.dq_parts = [&h](dq_part const& part) {
    const std::size_t at = std::size_t(part.row) * h.blocks + std::size_t(part.block);
    h.visited[at] = 1;
    std::copy(part.part.begin(), part.part.end(), h.parts.begin() + std::ptrdiff_t(at * h.d));
  };
  static_cast<void>(attention_backward(schedule, single, stored, options));
  return h;
}

}  // namespace stickybit::detail
