#include "stickybit/identify/gemm_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "identify/gemm_candidates.hpp"
#include "identify/gemm_filter.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace {

using detail::captured_element;
using detail::chain_unit;

constexpr std::int64_t sample_size = 64;
constexpr std::size_t most_survivors = 600;  ///< shapes that are compared in every element; more: the data says too little

bool same_numbers(machine_unit const& x, machine_unit const& y) {
  return x.input == y.input && x.output == y.output && x.block_size == y.block_size && x.alignment_fraction_bits == y.alignment_fraction_bits &&
         x.min_alignment_exponent == y.min_alignment_exponent && x.output_rounding == y.output_rounding && x.accumulator == y.accumulator &&
         x.output_fraction_bits == y.output_fraction_bits;
}

bool can_compute(machine_unit const& unit, captured_product const& p) {
  if (unit.input != p.input || (unit.output != format::f32 && unit.output != format::f16)) return false;
  const bool whole = unit.arithmetic == block_arithmetic::aligned_sum && unit.order == product_order::ascending && unit.input_b == unit.input && !unit.is_scaled() && !unit.flushes_subnormals;
  return whole && unit.accumulator == accumulator_place::aligned && (p.input == format::bf16 || p.input == format::f16 || p.input == format::tf32);
}

/// Elements spread over the output, the same for equal shapes.
std::vector<std::int64_t> sample_of(std::int64_t elements) {
  std::vector<std::int64_t> sample;
  const std::int64_t count = std::min(sample_size, elements);
  for (std::int64_t i = 0; i < count; ++i) sample.push_back(i * elements / count + (i * 7919) % std::max<std::int64_t>(1, elements / count));
  std::sort(sample.begin(), sample.end(), [](std::int64_t x, std::int64_t y) { return x * 2654435761u % 1000003 < y * 2654435761u % 1000003; });
  return sample;
}

/// Orders that share their chains, and differ in how sums are formed.
struct order_group {
  gemm_order shape;
  std::vector<detail::sum_choice> sums;
};

struct chain_choice {
  std::string unit;
  chain_unit by;
};

class searcher {
 public:
  searcher(captured_product const& p, gemm_search_options const& options) : p_(p), options_(options), elements_(p.m * p.n) {
    for (std::string const& unit : options.unit ? std::vector{*options.unit} : candidate_units(p)) {
      machine_unit const* numbers = unit == fma_unit ? nullptr : &unit_named(unit);
      if (numbers != nullptr && !can_compute(*numbers, p)) throw shape_error(fmt::format("unit {} does not compute such a product: its operands are {}", unit, traits_of(numbers->input).name));
      choices_.push_back({unit, {numbers, operand_rounding::cut}});
      if (p.input == format::tf32 && numbers != nullptr)
        for (operand_rounding how : {operand_rounding::nearest_even, operand_rounding::nearest_away}) choices_.push_back({unit, {numbers, how}});
    }
  }

  gemm_search_result run() {
    result_.elements = elements_;
    if (elements_ == 0 || p_.k == 0) return result_;
    stage([&](chain_choice const& c) { return regular(c); });
    if (result_.fits.empty()) stage([&](chain_choice const& c) { return streams(c); });
    if (result_.fits.empty() && elements_ >= 24) stage([&](chain_choice const& c) { return free_cuts(c); });
    if (result_.fits.empty() && elements_ >= 64) stage([&](chain_choice const& c) { return unordered(c); });
    if (result_.fits.empty()) find_closest();
    group_fits();
    return result_;
  }

 private:
  template <class Candidates>
  void stage(Candidates&& candidates) {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (options_.report) options_.report(std::int64_t(i), std::int64_t(choices_.size()));
      verify(choices_[i], candidates(choices_[i]));
    }
  }

  std::vector<captured_element> sample(chain_choice const& c) const {
    std::vector<captured_element> chosen;
    for (std::int64_t e : sample_of(elements_)) chosen.emplace_back(p_, c.by, e);
    return chosen;
  }

  /// The groups that give the sample, each reduced to the orders that do.
  std::vector<order_group> filter(chain_choice const& c, std::vector<gemm_order> const& shapes, bool unordered_sums) {
    const std::vector<captured_element> chosen = sample(c);
    std::vector<order_group> survivors;
#pragma omp parallel for schedule(dynamic, 16)
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::vector<detail::sum_choice> sums = sums_of(shapes[i], unordered_sums);
      for (captured_element const& e : chosen) {
        e.keep_agreeing(shapes[i], sums);
        if (sums.empty()) break;
      }
      if (sums.empty()) continue;
#pragma omp critical(stickybit_gemm_filter)
      survivors.push_back({shapes[i], std::move(sums)});
    }
    result_.orders_tried += std::int64_t(shapes.size());
    std::sort(survivors.begin(), survivors.end(), [](order_group const& x, order_group const& y) {
      const int cx = detail::complexity(x.shape), cy = detail::complexity(y.shape);
      return cx != cy ? cx < cy : text_of(x.shape, format::f32) < text_of(y.shape, format::f32);
    });
    for (std::size_t i = most_survivors; i < survivors.size(); ++i) result_.other_cuts_left_out |= survivors[i].shape.cuts != survivors.front().shape.cuts;
    if (survivors.size() > most_survivors) survivors.resize(most_survivors);
    return survivors;
  }

  std::vector<detail::sum_choice> sums_of(gemm_order const& shape, bool unordered_sums) const {
    if (unordered_sums) return {{.combine = sum_order::any}};
    return detail::sum_choices(shape.ways, detail::most_slices_of(shape, p_.k, p_.rows, p_.columns), p_.output, !p_.c.empty());
  }

  std::vector<order_group> regular(chain_choice const& c) { return filter(c, detail::order_shapes(c.unit, c.by.unit == nullptr ? 1 : c.by.unit->block_size, c.by.operands, p_.k), false); }
  std::vector<order_group> streams(chain_choice const& c) { return filter(c, detail::stream_orders(c.unit, c.by.operands, p_.rows, p_.columns, p_.k), false); }

  std::vector<order_group> free_cuts(chain_choice const& c) {
    std::vector<order_group> groups;
    if (!p_.c.empty()) return groups;
    std::vector<captured_element> chosen = sample(c);
    chosen.erase(chosen.begin() + std::ptrdiff_t(std::min<std::size_t>(chosen.size(), 32)), chosen.end());
    const gemm_order plain{.unit = c.unit, .operands = c.by.operands, .cuts = {}, .stream = {}};
    for (gemm_order& o : detail::free_cut_orders(chosen, plain, p_.k, p_.output)) groups.push_back({o, {{o.join, o.partial, o.combine, o.running, o.c_first}}});
    if (groups.size() > most_survivors) groups.resize(most_survivors);
    return groups;
  }

  std::vector<order_group> unordered(chain_choice const& c) {
    std::vector<gemm_order> shapes;
    for (std::vector<std::int64_t>& cuts : detail::regular_cuts(p_.k, 8))
      if (cuts.size() >= 4 && cuts.size() <= 6) shapes.push_back({.unit = c.unit, .operands = c.by.operands, .cuts = std::move(cuts), .stream = {}});
    return filter(c, shapes, true);
  }

  /// Adds those that give every element to the fits.
  void verify(chain_choice const& c, std::vector<order_group> groups) {
    constexpr std::int64_t at_once = 64;  // elements, after which what failed is dropped for all
    for (std::int64_t first = 0; first < elements_ && !groups.empty(); first += at_once) {
      std::vector<captured_element> chunk;
      for (std::int64_t e = first; e < std::min(first + at_once, elements_); ++e) chunk.emplace_back(p_, c.by, e);
#pragma omp parallel for schedule(dynamic)
      for (std::size_t i = 0; i < groups.size(); ++i)
        for (captured_element const& e : chunk)
          if (!groups[i].sums.empty()) e.keep_agreeing(groups[i].shape, groups[i].sums);
      std::erase_if(groups, [](order_group const& g) { return g.sums.empty(); });
    }
    for (order_group const& g : groups)
      for (detail::sum_choice const& sums : g.sums) result_.fits.push_back({detail::with_sums(g.shape, sums), 0});
  }

  /// The order with the fewest mismatches on a few elements, then counted on all.
  void find_closest() {
    std::int64_t fewest = elements_ + 1;
    for (chain_choice const& c : choices_) {
      std::vector<captured_element> chosen = sample(c);
      chosen.erase(chosen.begin() + std::ptrdiff_t(std::min<std::size_t>(chosen.size(), 16)), chosen.end());
      for (gemm_order const& shape : detail::order_shapes(c.unit, c.by.unit == nullptr ? 1 : c.by.unit->block_size, c.by.operands, p_.k)) {
        if (shape.cuts.size() > 18 || (shape.ways > 1 && shape.cuts.size() > 2)) continue;
        const std::vector<detail::sum_choice> sums = sums_of(shape, false);
        std::vector<std::int64_t> failures(sums.size());
        for (captured_element const& e : chosen) e.count_failures(shape, sums, failures);
        const auto best = std::min_element(failures.begin(), failures.end());
        if (*best >= fewest) continue;
        fewest = *best;
        result_.closest = detail::with_sums(shape, sums[std::size_t(best - failures.begin())]);
        closest_choice_ = c;
      }
    }
    if (!result_.closest) return;
    for (std::int64_t e = 0; e < elements_; ++e) result_.closest_mismatches += !captured_element(p_, closest_choice_.by, e).agrees(*result_.closest);
  }

  void group_fits() {
    std::stable_sort(result_.fits.begin(), result_.fits.end(), [](auto const& x, auto const& y) { return detail::complexity(x.order) < detail::complexity(y.order); });
    std::map<std::string, int> groups;
    for (gemm_search_result::fit& f : result_.fits) {
      const std::int64_t block = f.order.unit == fma_unit ? 1 : unit_named(f.order.unit).block_size;
      f.group = groups.try_emplace(detail::signature(f.order, p_.k, block), int(groups.size())).first->second;
    }
  }

  captured_product const& p_;
  gemm_search_options const& options_;
  std::int64_t elements_;
  std::vector<chain_choice> choices_;
  chain_choice closest_choice_;
  gemm_search_result result_;
};

}  // namespace

int gemm_search_result::groups() const noexcept {
  int most = -1;
  for (fit const& f : fits) most = std::max(most, f.group);
  return most + 1;
}

bool gemm_search_result::one_split() const noexcept {
  return !other_cuts_left_out && std::all_of(fits.begin(), fits.end(), [&](fit const& f) {
    gemm_order const &x = f.order, &y = fits.front().order;
    return x.cuts == y.cuts && x.cuts.size() > 2 && x.stream == y.stream && x.partial == y.partial && x.running == y.running;
  });
}

std::vector<std::string> candidate_units(captured_product const& product) {
  std::vector<std::string> names;
  std::vector<machine_unit const*> units;
  for (machine const* m : all_machines()) {
    if (m->name != (product.machine.empty() ? std::string_view("sm90") : std::string_view(product.machine))) continue;
    for (machine_unit const& u : m->units) {
      if (!can_compute(u, product) || std::any_of(units.begin(), units.end(), [&](machine_unit const* other) { return same_numbers(u, *other); })) continue;
      units.push_back(&u);
      names.emplace_back(u.name);
    }
  }
  names.emplace_back(fma_unit);
  return names;
}

std::vector<std::string> units_like(std::string const& unit) {
  std::vector<std::string> names;
  if (unit == fma_unit) return names;
  machine_unit const& numbers = unit_named(unit);
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units)
      if (u.name != numbers.name && u.name.substr(0, u.name.find('.')) == numbers.name.substr(0, numbers.name.find('.')) && same_numbers(u, numbers)) names.emplace_back(u.name);
  return names;
}

gemm_search_result search_gemm(captured_product const& product, gemm_search_options const& options) { return searcher(product, options).run(); }

}  // namespace stickybit
