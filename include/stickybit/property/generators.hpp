#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/study/random.hpp"

// Calls made for rounding. A call is put together from named parts: its sizes, its numbers, perhaps other values of V or dO, perhaps something laid
// over all. Everything is decided by the names and a seed; every platform has the same codes.

namespace stickybit {

enum class generator_part : std::uint8_t {
  sizes,     ///< lengths, heads, batch, mask, scale
  numbers,   ///< q, k, v, dO of a call whose sizes are set
  values,    ///< V again
  gradient,  ///< dO again
  overlay,   ///< single elements
};
[[nodiscard]] std::string_view name_of(generator_part part) noexcept;

/// From which calls cases are drawn.
struct case_space {
  std::vector<std::int64_t> head_dims{64, 128};
  std::vector<bool> causal{false, true};
  std::int64_t least_queries = 1, most_queries = 160, most_keys = 288;
  bool batches = true;    ///< more than one batch element, more than one head, grouped heads
  bool scales = true;     ///< other scales than 1/√d
  bool gradients = false;  ///< with dO
  bool finite = false;    ///< no NaN, no infinities, no scores beyond FP32
  std::vector<std::string> only;  ///< names of generators: of each part that one of them belongs to, no others are drawn
};

struct generator {
  std::string_view name;
  generator_part part;
  std::string_view exposes;
  bool finite;  ///< never makes NaN, infinities or scores beyond FP32
  int weight;   ///< how often it is drawn
  void (*apply)(case_space const&, attention_problem&, study_random&);
};

/// All of them; no name twice.
[[nodiscard]] std::span<generator const> all_generators() noexcept;
/// @throws std::invalid_argument listing the generators that there are
[[nodiscard]] generator const& generator_named(std::string_view name);

struct property_case {
  std::uint64_t seed = 0;
  std::string recipe;  ///< "edges/gauss", "one-key/ties/values-one/nan": the names, joined with '/'
  attention_problem problem;  ///< layout b,s,h,d
};

/// The case of a seed: its recipe is drawn, then made.
[[nodiscard]] property_case make_case(case_space const& space, std::uint64_t seed);
/// The case of a recipe.  @throws std::invalid_argument where it has not sizes and numbers first
[[nodiscard]] property_case make_case(case_space const& space, std::string_view recipe, std::uint64_t seed);

/// The same call in layout b,s,h,d.
[[nodiscard]] attention_problem in_standard_layout(attention_problem const& problem);

}  // namespace stickybit
