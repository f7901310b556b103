#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "stickybit/attention/problem.hpp"

namespace stickybit::gpu {

/// How the tensors of a call lie in memory.
enum class memory_layout : std::uint8_t { rows_outside, heads_outside, packed, gaps };

/// One random call. Everything follows from seed, index and what is set by hand; inputs are made with integers and IEEE operations only, so
/// that a case is the same on every machine.
struct attention_case {
  std::uint64_t seed = 1, index = 0;
  bool backward = false;
  std::int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, head_dim = 64;
  bool causal = false;
  double scale = 0.125;
  std::string regime = "random";
  memory_layout layout = memory_layout::rows_outside;
  std::string fix = "none";   ///< as with_fixes takes it
  bool deterministic = true;  ///< of the backward pass

  /// head_dim=64;causal=1;…: what `set` takes.
  [[nodiscard]] std::string text() const;
  /// @param changes  name=value, joined with ';' (a fix has commas)  @throws std::invalid_argument
  void set(std::string_view changes);
};

[[nodiscard]] attention_case draw_case(std::uint64_t seed, std::uint64_t index, bool backward);

/// Q, K, V and, for a backward case, dO of the case, layout b,s,h,d.  @throws std::invalid_argument for an unknown regime
[[nodiscard]] attention_problem make_problem(attention_case const& c);

[[nodiscard]] std::string known_regimes();

}  // namespace stickybit::gpu
