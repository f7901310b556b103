#include "stickybit/property/generators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "drawing.hpp"
#include "generator_parts.hpp"

namespace stickybit {
namespace {

std::vector<generator> made() {
  std::vector<generator> all;
  detail::append_size_generators(all);
  detail::append_number_generators(all);
  detail::append_value_generators(all);
  return all;
}

/// One of the part, by weight. Null where the space has none.
generator const* drawn(case_space const& space, generator_part part, study_random& random) {
  const auto chosen = [&](generator const& g) { return std::find(space.only.begin(), space.only.end(), g.name) != space.only.end(); };
  bool narrowed = false;
  for (generator const& g : all_generators()) narrowed |= g.part == part && chosen(g);
  const auto weight = [&](generator const& g) { return g.part == part && (g.finite || !space.finite) && (!narrowed || chosen(g)) ? g.weight : 0; };
  std::int64_t total = 0;
  for (generator const& g : all_generators()) total += weight(g);
  if (total == 0) return nullptr;
  std::int64_t at = random.below(total);
  for (generator const& g : all_generators())
    if ((at -= weight(g)) < 0) return &g;
  return nullptr;
}

bool names_one_of(case_space const& space, generator_part part) {
  return std::any_of(space.only.begin(), space.only.end(), [&](std::string const& name) { return generator_named(name).part == part; });
}

}  // namespace

std::string_view name_of(generator_part part) noexcept {
  switch (part) {
    case generator_part::sizes: return "sizes";
    case generator_part::numbers: return "numbers";
    case generator_part::values: return "values";
    case generator_part::gradient: return "gradient";
    case generator_part::overlay: return "overlay";
  }
  return {};
}

std::span<generator const> all_generators() noexcept {
  static const std::vector<generator> all = made();
  return all;
}

generator const& generator_named(std::string_view name) {
  std::string known;
  for (generator const& g : all_generators()) {
    if (g.name == name) return g;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", g.name);
  }
  throw std::invalid_argument(fmt::format("unknown generator '{}': expected one of {}", name, known));
}

property_case make_case(case_space const& space, std::uint64_t seed) {
  study_random random(seed * 0x9e3779b97f4a7c15u + 1);
  std::string recipe(drawn(space, generator_part::sizes, random)->name);
  recipe += fmt::format("/{}", drawn(space, generator_part::numbers, random)->name);
  const auto perhaps = [&](generator_part part, std::int64_t one_of) {
    if (!names_one_of(space, part) && (!space.only.empty() || random.below(one_of) != 0)) return;
    if (generator const* g = drawn(space, part, random)) recipe += fmt::format("/{}", g->name);
  };
  perhaps(generator_part::values, 4);
  if (space.gradients) perhaps(generator_part::gradient, 3);
  perhaps(generator_part::overlay, 6);
  return make_case(space, recipe, seed);
}

property_case make_case(case_space const& space, std::string_view recipe, std::uint64_t seed) {
  study_random random(seed * 0xd1342543de82ef95u + 7);
  property_case made{seed, std::string(recipe), {}};
  int place = 0;
  for (std::size_t begin = 0; begin <= recipe.size(); ++place) {
    const std::size_t end = std::min(recipe.find('/', begin), recipe.size());
    generator const& g = generator_named(recipe.substr(begin, end - begin));
    const bool right = place == 0 ? g.part == generator_part::sizes : place == 1 ? g.part == generator_part::numbers : g.part != generator_part::sizes && g.part != generator_part::numbers;
    if (!right) throw std::invalid_argument(fmt::format("recipe '{}': expected SIZES/NUMBERS, then perhaps values, gradient and overlays", recipe));
    if (place == 1) detail::size_tensors(made.problem, space.gradients);
    g.apply(space, made.problem, random);
    begin = end + 1;
  }
  if (place < 2) throw std::invalid_argument(fmt::format("recipe '{}': expected SIZES/NUMBERS", recipe));
  return made;
}

attention_problem in_standard_layout(attention_problem const& from) {
  if (from.layout == tensor_layout::b_s_h_d) return from;
  attention_problem to = from;
  to.layout = tensor_layout::b_s_h_d;
  const auto moved = [&](std::vector<bf16_code> const& codes, row_strides a, row_strides b, std::int64_t heads, std::int64_t rows) {
    std::vector<bf16_code> out(codes.size());
    for (std::int64_t n = 0; !codes.empty() && n < from.batch; ++n)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < rows; ++i) std::copy_n(codes.begin() + a.offset(n, h, i), from.head_dim, out.begin() + b.offset(n, h, i));
    return out;
  };
  to.q = moved(from.q, from.query_strides(), to.query_strides(), from.heads, from.queries);
  to.d_o = moved(from.d_o, from.query_strides(), to.query_strides(), from.heads, from.queries);
  to.k = moved(from.k, from.key_strides(), to.key_strides(), from.key_heads, from.keys);
  to.v = moved(from.v, from.key_strides(), to.key_strides(), from.key_heads, from.keys);
  return to;
}

}  // namespace stickybit
