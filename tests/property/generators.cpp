#include "stickybit/property/generators.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "stickybit/format/value.hpp"
#include "stickybit/schedule/attention_schedule.hpp"
#include "support/catch.hpp"

namespace stickybit {
namespace {

bool same(attention_problem const& a, attention_problem const& b) { return a.q == b.q && a.k == b.k && a.v == b.v && a.d_o == b.d_o && a.softmax_scale == b.softmax_scale && a.causal == b.causal; }

/// FNV-1a over q, k, v and dO.
std::uint64_t hash_of(attention_problem const& p, std::uint64_t hash) {
  for (std::vector<bf16_code> const* codes : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code c : *codes) hash = (hash ^ c.to_bits()) * 0x100000001b3u;
  return hash;
}

}  // namespace

TEST_CASE("generators: names are unique, each says what it exposes, and each is drawn", "[property][generators]") {
  std::set<std::string_view> names;
  for (generator const& g : all_generators()) {
    CHECK(names.insert(g.name).second);
    CHECK(g.exposes.size() > 10);
  }
  case_space space;
  space.gradients = true;
  std::map<std::string, int> drawn;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    const property_case c = make_case(space, seed);
    for (std::size_t at = 0; at <= c.recipe.size();) {
      const std::size_t end = std::min(c.recipe.find('/', at), c.recipe.size());
      ++drawn[c.recipe.substr(at, end - at)];
      at = end + 1;
    }
  }
  for (generator const& g : all_generators()) {
    INFO(g.name);
    CHECK(drawn[std::string(g.name)] > 0);
  }
}

TEST_CASE("generators: a seed decides the case, a recipe makes it again, sizes stay in the space", "[property][generators]") {
  case_space space;
  space.gradients = true;
  space.most_keys = 100;
  space.most_queries = 50;
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const property_case c = make_case(space, seed);
    attention_problem const& p = c.problem;
    CHECK(same(p, make_case(space, seed).problem));
    CHECK(same(p, make_case(space, c.recipe, seed).problem));
    CHECK((p.keys >= 1 && p.keys <= 100 && p.queries >= 1 && p.queries <= 50));
    CHECK((p.q.size() == std::size_t(p.batch * p.heads * p.queries * p.head_dim) && p.k.size() == std::size_t(p.batch * p.key_heads * p.keys * p.head_dim) && p.v.size() == p.k.size() && p.d_o.size() == p.q.size()));
    hash = hash_of(p, hash);
  }
  CHECK(fmt::format("{:016x}", hash) == "dba617c8924dd3d0");
  CHECK_THROWS_AS(make_case(space, "gauss", 1), std::invalid_argument);
  CHECK_THROWS_AS(make_case(space, "small", 1), std::invalid_argument);
  CHECK_THROWS_AS(make_case(space, "small/nothing", 1), std::invalid_argument);
}

TEST_CASE("generators: a finite space has no NaN and no infinity", "[property][generators]") {
  case_space space;
  space.gradients = space.finite = true;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const property_case c = make_case(space, seed);
    bool finite = true;
    for (auto const* codes : {&c.problem.q, &c.problem.k, &c.problem.v, &c.problem.d_o})
      for (bf16_code x : *codes) finite = finite && x.is_finite();
    INFO(c.recipe);
    CHECK(finite);
  }
}

TEST_CASE("generators: `only` narrows the parts it names", "[property][generators]") {
  case_space space;
  space.only = {"one-key", "values-one"};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const property_case c = make_case(space, seed);
    CHECK(c.problem.keys == 1);
    CHECK(c.recipe.ends_with("/values-one"));
  }
}

}  // namespace stickybit
