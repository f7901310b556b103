#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "stickybit/attention/problem.hpp"

namespace stickybit {

/// How the numbers of a generated call are made. r: normal numbers, one for each element; u: uniform in [0, 1). `a`: the regime's number.
enum class regime_kind : std::uint8_t {
  gauss,         ///< q = a r, k = r, v = r
  late,          ///< mu = a r(1, d); k = 1.5 r + mu; q_i = 0.5 r + 1.2 (k of key 5i − mu); v = r: keys with a large mean, rows nearly one-hot
  hot,           ///< mu = a r(1, d); k = c + mu; q = 2 c in random order; v = r
  ties,          ///< every odd key equals the even one before it; q = a r; v = −(|r| + 0.5), dO = −|r|
  tied_pair,     ///< keys in threes: two equal ones that hold nearly all of a row's weight, and one of weight about 2^-13 of theirs. The pair's
                 ///< V is ±(1 + u), so that their sum has one bit more than BF16; the third's is a (1 + u/4). Sign: that of a. dO = |r|
  tied_apart,    ///< as tied_pair, the three keys a third of all keys apart: in different blocks
  tied_negative, ///< as tied_pair, all scores lowered far below 0 by a common column
  tied_zero,     ///< as tied_pair, the pair's score exactly 0 and all others below
  negative,      ///< k = |r|, q = −a |r|: all scores negative; v = r
  one_signed,    ///< q = a r, k = r; v = −(|r| + 0.5), dO = −|r|: no ties
  constant_v,    ///< q = r, k = r; v = 1 + a r. a = 0: every gradient but dV is exactly 0
  value_mean,    ///< q = r, k = r; v = r + a r(1, d), dO = r + r(1, d): dP and delta large and nearly equal
  one_hot,       ///< k = r, q = a k in random order: the row's own key wins by far
  key_mean,      ///< k = r + a r(1, d); q = r, v = r
  correlated,    ///< q_i = a (k_i + r/2), k = r, v = k/2 + r
};

/// A named family of calls; all of it is decided by the name and a seed.
struct named_regime {
  std::string_view name;
  regime_kind kind = regime_kind::gauss;
  double a = 1;
  std::int64_t queries = 192, keys = 192, heads = 1, key_heads = 1, head_dim = 64;
  bool causal = false;
  double d_o = 1;            ///< dO is multiplied by it
  double softmax_scale = 0;  ///< 0: 1/√d
};

/// All of them; no name twice.
[[nodiscard]] std::span<named_regime const> named_regimes() noexcept;

/// @throws std::invalid_argument listing the regimes that there are
[[nodiscard]] named_regime const& regime_named(std::string_view name);

/// The call: layout s,h,d. Numbers are formed in double from study_random with additions, multiplications and comparisons alone and
/// rounded once to BF16, so that every platform has the same codes.
[[nodiscard]] attention_problem generate(named_regime const& regime, std::uint64_t seed = 1);

/// Has the regime rows whose maximum is tied by construction?
[[nodiscard]] bool is_tied(regime_kind kind) noexcept;

}  // namespace stickybit
