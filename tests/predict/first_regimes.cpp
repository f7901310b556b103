#include <algorithm>
#include <map>

#include "predict/regimes.hpp"
#include "stickybit/study/regimes.hpp"

namespace stickybit::test {
namespace {

constexpr std::uint64_t seed = 7;

/// Where the construction gives a tensor's columns one sign, by far.
std::string_view biased_tensor(named_regime const& r) {
  using enum regime_kind;
  switch (r.kind) {
    case tied_pair:
    case tied_apart:
    case tied_negative: return "o";
    case one_signed: return r.a < 2 ? "dk" : "";
    case value_mean: return "dk";
    case constant_v: return r.a != 0 ? "o" : "";
    default: return "";
  }
}

}  // namespace

std::vector<std::string_view> first_regimes() {
  std::vector<std::string_view> names;
  for (named_regime const& r : named_regimes()) names.push_back(r.name);
  return names;
}

calibration_regime first_regime(std::string_view name) {
  named_regime r = regime_named(name);
  const std::int64_t group = r.heads / r.key_heads;
  r.key_heads = 1024 / r.head_dim;
  r.heads = group * r.key_heads;
  // Enough rows for a mean over them to be one.
  r.queries = std::max<std::int64_t>(r.queries, 256);
  if (r.keys < 256) r.keys = r.keys % 3 == 0 ? 255 : 256;
  return {std::string(name), generate(r, seed), biased_tensor(r)};
}

}  // namespace stickybit::test
