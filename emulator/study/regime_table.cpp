#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "stickybit/study/regimes.hpp"

namespace stickybit {
namespace {

using enum regime_kind;

// Sizes are small so that all of them under every fix take minutes.
constexpr std::array table{
    named_regime{.name = "gauss-d64", .kind = gauss, .a = 1},
    named_regime{.name = "gauss-d128", .kind = gauss, .a = 1, .head_dim = 128},
    named_regime{.name = "gauss-causal", .kind = gauss, .a = 1, .causal = true},
    named_regime{.name = "gauss-sharp", .kind = gauss, .a = 4},
    named_regime{.name = "gauss-long", .kind = gauss, .a = 1, .queries = 32, .keys = 1024},
    named_regime{.name = "gauss-grouped", .kind = gauss, .a = 1, .queries = 128, .keys = 128, .heads = 4, .key_heads = 2},
    named_regime{.name = "gauss-tiny-do", .kind = gauss, .a = 1, .d_o = 0x1p-30},
    named_regime{.name = "large-scale", .kind = gauss, .a = 1, .softmax_scale = 1},
    named_regime{.name = "large-scale-d128", .kind = gauss, .a = 3, .head_dim = 128, .softmax_scale = 1},
    named_regime{.name = "flat", .kind = gauss, .a = 0x1p-6},
    named_regime{.name = "flat-tiny-scale", .kind = gauss, .a = 1, .softmax_scale = 0x1p-20},
    named_regime{.name = "flat-long", .kind = gauss, .a = 0x1p-6, .queries = 32, .keys = 2048},
    named_regime{.name = "late-mean2", .kind = late, .a = 2, .d_o = 0.01},
    named_regime{.name = "late-mean6", .kind = late, .a = 6, .d_o = 0.01},
    named_regime{.name = "late-mean20", .kind = late, .a = 20, .d_o = 0.01},
    named_regime{.name = "late-mean60", .kind = late, .a = 60, .d_o = 0.01},
    named_regime{.name = "late-mean6-d128", .kind = late, .a = 6, .head_dim = 128, .d_o = 0.01},
    named_regime{.name = "late-mean20-d128", .kind = late, .a = 20, .head_dim = 128, .d_o = 0.01},
    named_regime{.name = "late-causal", .kind = late, .a = 6, .causal = true, .d_o = 0.01},
    named_regime{.name = "late-causal-d128", .kind = late, .a = 6, .head_dim = 128, .causal = true, .d_o = 0.01},
    named_regime{.name = "late-large-do", .kind = late, .a = 6, .d_o = 8},
    named_regime{.name = "late-tiny-do", .kind = late, .a = 6, .d_o = 0x1p-40},
    named_regime{.name = "late-long", .kind = late, .a = 6, .queries = 32, .keys = 1024, .d_o = 0.01},
    named_regime{.name = "late-grouped", .kind = late, .a = 6, .queries = 128, .keys = 128, .heads = 4, .key_heads = 1, .d_o = 0.01},
    named_regime{.name = "hot", .kind = hot, .a = 20, .d_o = 1e-3},
    named_regime{.name = "hot-d128", .kind = hot, .a = 20, .head_dim = 128, .d_o = 1e-3},
    named_regime{.name = "hot-causal", .kind = hot, .a = 20, .causal = true, .d_o = 1e-3},
    named_regime{.name = "hot-mean100", .kind = hot, .a = 100, .d_o = 1e-3},
    named_regime{.name = "ties", .kind = ties, .a = 3},
    named_regime{.name = "ties-sharp", .kind = ties, .a = 8},
    named_regime{.name = "ties-d128", .kind = ties, .a = 3, .head_dim = 128},
    named_regime{.name = "ties-causal", .kind = ties, .a = 3, .causal = true},
    named_regime{.name = "pair-neg-small", .kind = tied_pair, .a = -0.25},
    named_regime{.name = "pair-neg-large", .kind = tied_pair, .a = -3},
    named_regime{.name = "pair-pos-small", .kind = tied_pair, .a = 0.25},
    named_regime{.name = "pair-pos-large", .kind = tied_pair, .a = 3},
    named_regime{.name = "pair-neg-small-d128", .kind = tied_pair, .a = -0.25, .head_dim = 128},
    named_regime{.name = "pair-long", .kind = tied_pair, .a = -0.25, .queries = 64, .keys = 1152},
    named_regime{.name = "apart-neg-small", .kind = tied_apart, .a = -0.25, .queries = 192, .keys = 576},
    named_regime{.name = "apart-pos-large", .kind = tied_apart, .a = 3, .queries = 192, .keys = 576},
    named_regime{.name = "tied-negative", .kind = tied_negative, .a = -0.25},
    named_regime{.name = "tied-zero", .kind = tied_zero, .a = -0.25},
    named_regime{.name = "negative", .kind = negative, .a = 2},
    named_regime{.name = "negative-d128", .kind = negative, .a = 1, .head_dim = 128},
    named_regime{.name = "one-signed", .kind = one_signed, .a = 1},
    named_regime{.name = "one-signed-sharp", .kind = one_signed, .a = 6},
    named_regime{.name = "constant-v", .kind = constant_v, .a = 0},
    named_regime{.name = "constant-v-noise", .kind = constant_v, .a = 0x1p-7},
    named_regime{.name = "value-mean", .kind = value_mean, .a = 10},
    named_regime{.name = "value-mean-d128", .kind = value_mean, .a = 40, .head_dim = 128},
    named_regime{.name = "one-hot", .kind = one_hot, .a = 2},
    named_regime{.name = "one-hot-hard", .kind = one_hot, .a = 4},
    named_regime{.name = "one-hot-d128", .kind = one_hot, .a = 2, .head_dim = 128},
    named_regime{.name = "key-mean10", .kind = key_mean, .a = 10},
    named_regime{.name = "key-mean100", .kind = key_mean, .a = 100},
    named_regime{.name = "key-mean300-d128", .kind = key_mean, .a = 300, .head_dim = 128},
    named_regime{.name = "key-mean-causal", .kind = key_mean, .a = 30, .causal = true},
    named_regime{.name = "correlated", .kind = correlated, .a = 1},
    named_regime{.name = "correlated-causal", .kind = correlated, .a = 1, .causal = true},
};

}  // namespace

std::span<named_regime const> named_regimes() noexcept { return table; }

named_regime const& regime_named(std::string_view name) {
  const auto found = std::ranges::find(table, name, &named_regime::name);
  if (found != table.end()) return *found;
  std::string known;
  for (named_regime const& r : table) known += fmt::format("{}{}", known.empty() ? "" : ", ", r.name);
  throw std::invalid_argument(fmt::format("unknown regime '{}': expected one of {}", name, known));
}

}  // namespace stickybit
