#include <algorithm>
#include <array>

#include "identify/gemm_filter.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"

namespace stickybit::detail {
namespace {

constexpr std::int64_t most_granules = 256;

/// All chains of one element from one multiple of the granule to another.
class chain_table {
 public:
  chain_table(element_products const& products, std::int64_t granule, std::int64_t granules) : granules_(granules), ends_(std::size_t(granules * granules)) {
    for (std::int64_t begin = 0; begin < granules && complete_; ++begin)
      complete_ = products.chain_ends(begin * granule, granule, std::span(ends_).subspan(std::size_t(begin * granules + begin), std::size_t(granules - begin)));
  }
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// Granules [begin, end).
  [[nodiscard]] f32_code at(std::int64_t begin, std::int64_t end) const noexcept { return ends_[std::size_t(begin * granules_ + end - 1)]; }

 private:
  std::int64_t granules_;
  std::vector<f32_code> ends_;
  bool complete_ = true;
};

/// How the parts of a candidate are added here.
struct sum_kind {
  bool descending = false;
  format partial = format::f32, running = format::f32;
};

f32_code sum_of(std::span<f32_code const> parts, sum_kind kind) {
  f32_code sum = f32_code::zero();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const f32_code part = rounded_to(kind.partial, parts[kind.descending ? parts.size() - 1 - i : i]);
    sum = rounded_to(kind.running, i == 0 ? part : host::add(sum, part));
  }
  return sum;
}

struct search_state {
  std::vector<captured_element> const& elements;
  std::vector<chain_table> const& tables;
  gemm_order const& plain;
  std::int64_t granule, granules, k;
  std::vector<gemm_order>* found;
};

/// cuts: 0, ..., granules.
void try_cuts(search_state const& s, std::span<std::int64_t const> cuts, sum_kind kind) {
  std::array<f32_code, 5> parts;
  const std::size_t count = cuts.size() - 1;
  for (std::size_t e = 0; e < s.tables.size(); ++e) {
    for (std::size_t i = 0; i < count; ++i) parts[i] = s.tables[e].at(cuts[i], cuts[i + 1]);
    if (!s.elements[e].is(sum_of(std::span(parts).first(count), kind))) return;
  }
  gemm_order order = s.plain;
  order.cuts.clear();
  for (std::int64_t cut : cuts) order.cuts.push_back(std::min(cut * s.granule, s.k));
  order.combine = kind.descending ? sum_order::descending : sum_order::ascending;
  order.partial = kind.partial;
  order.running = kind.running;
#pragma omp critical(stickybit_free_cuts)
  s.found->push_back(std::move(order));
}

}  // namespace

std::vector<gemm_order> free_cut_orders(std::vector<captured_element> const& elements, gemm_order const& plain, std::int64_t k, format output) {
  std::vector<gemm_order> found;
  if (!host::is_ieee()) return found;
  std::int64_t granule = 16;
  while ((k + granule - 1) / granule > most_granules) granule *= 2;
  const std::int64_t n = (k + granule - 1) / granule;
  std::vector<chain_table> tables;
  for (captured_element const& e : elements) {
    tables.emplace_back(e.products(), granule, n);
    if (!tables.back().complete()) return found;
  }
  std::vector<sum_kind> kinds{{}, {.descending = true}};
  if (output != format::f32) kinds.insert(kinds.end(), {sum_kind{.partial = output}, sum_kind{.running = output}});
  const search_state state{elements, tables, plain, granule, n, k, &found};
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 1; i < n; ++i)
    for (sum_kind kind : kinds) {
      if (!kind.descending) try_cuts(state, std::array{std::int64_t{0}, i, n}, kind);
      for (std::int64_t j = i + 1; j < n; ++j) {
        try_cuts(state, std::array{std::int64_t{0}, i, j, n}, kind);
        for (std::int64_t l = j + 1; l < n; ++l) try_cuts(state, std::array{std::int64_t{0}, i, j, l, n}, kind);
      }
    }
  return found;
}

}  // namespace stickybit::detail
