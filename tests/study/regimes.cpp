#include "stickybit/study/regimes.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "stickybit/format/value.hpp"
#include "stickybit/study/random.hpp"
#include "support/catch.hpp"

namespace stickybit {
namespace {

/// FNV-1a over q, k, v and dO.
std::uint64_t hash_of(attention_problem const& p) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::vector<bf16_code> const* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code c : *codes) hash = (hash ^ c.to_bits()) * 0x100000001b3u;
  return hash;
}

}  // namespace

TEST_CASE("study_random: the first numbers of seed 0, as published for splitmix64 and xoshiro256**", "[study][golden]") {
  // splitmix64(0) gives e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec; xoshiro256** of that state: rotl(s1·5, 7)·9.
  study_random random(0);
  const std::uint64_t s1 = 0x6e789e6aa1b965f4u * 5;
  CHECK(random.next() == ((s1 << 7) | (s1 >> 57)) * 9);
  for (int i = 0; i < 10000; ++i) {
    const double x = random.normal(), u = random.uniform();
    if (std::fabs(x) > 6 || u < 0 || u >= 1) FAIL(fmt::format("normal {} uniform {}", x, u));
  }
  const std::vector<std::int64_t> order = random.permutation(100);
  CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == 100);
}

TEST_CASE("study_random: normal has mean 0 and variance 1, 10^5 numbers", "[study][property]") {
  study_random random(7);
  double sum = 0, squares = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(std::fabs(sum / n) < 0.013);  // four standard errors
  CHECK(std::fabs(squares / n - 1) < 0.018);
}

TEST_CASE("regimes: at least 50, names distinct, codes distinct, all codes finite and as they always were", "[study][golden]") {
  std::set<std::string_view> names;
  std::set<std::uint64_t> hashes;
  std::uint64_t all = 0;
  for (named_regime const& r : named_regimes()) {
    names.insert(r.name);
    const attention_problem p = generate(r);
    const std::uint64_t hash = hash_of(p);
    hashes.insert(hash);
    all = all * 0x100000001b3u ^ hash;
    INFO(r.name);
    CHECK(hash_of(generate(r, 2)) != hash);
    for (std::vector<bf16_code> const* codes : {&p.q, &p.k, &p.v, &p.d_o})
      for (bf16_code c : *codes)
        if (!std::isfinite(to_double(c))) FAIL(r.name);
  }
  CHECK(named_regimes().size() >= 50);
  CHECK(names.size() == named_regimes().size());
  CHECK(hashes.size() == named_regimes().size());
  // Any change of a generator changes this; then the tables of docs/fixes.md are to be printed again.
  CHECK(fmt::format("{:016x}", all) == "a170cceadf273229");
}

TEST_CASE("regimes: an unknown name is refused with the list", "[study]") {
  CHECK(regime_named("late-mean6").a == 6);
  try {
    static_cast<void>(regime_named("nonsense"));
    FAIL("not refused");
  } catch (std::invalid_argument const& e) {
    CHECK(std::string_view(e.what()).find("gauss-d64, ") != std::string_view::npos);
  }
}

}  // namespace stickybit
