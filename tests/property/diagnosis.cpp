#include "stickybit/property/diagnosis.hpp"

#include <set>

#include "stickybit/property/shrink.hpp"
#include "stickybit/schedule/attention_schedule.hpp"
#include "support/catch.hpp"

namespace stickybit {

TEST_CASE("diagnosis: the catalogue names each cause once", "[property][diagnosis]") {
  for (const char* name : {"fa3", "cudnn", "fa2-torch"}) {
    std::set<std::string> names;
    const auto catalogue = diagnosis_catalogue(attention_schedule_named(name));
    CHECK(catalogue.size() > 60);
    for (catalogue_entry const& e : catalogue) {
      INFO(e.name);
      CHECK(names.insert(e.name).second);
      CHECK_FALSE(e.family.empty());
    }
  }
}

TEST_CASE("diagnosis: a kernel with no difference has no cause", "[property][diagnosis]") {
  case_space space;
  space.head_dims = {64};
  space.most_queries = 6;
  space.most_keys = 100;
  diagnosis_options options;
  options.pairs = false;
  const diagnosis d = diagnose(*emulated_kernel("fa3"), attention_schedule_named("fa3"), {}, space, options);
  CHECK_FALSE(d.known);
  CHECK(d.cause == "unknown");
}

TEST_CASE("diagnosis: a fault of the gradients is not explained by what changes the forward pass in other calls alone", "[property][diagnosis]") {
  // In calls of one block of keys nothing is rescaled: a forward pass that forgets to is sound there.
  case_space space;
  space.head_dims = {64};
  space.only = {"grouped"};
  space.gradients = space.finite = true;
  const auto kernel = callable_kernel(
      "dV wrong", [](attention_problem const& p, kernel_results& r) { r = emulated_kernel("fa3")->run(p, false); },
      [](attention_problem const& p, kernel_results& r) {
        const kernel_results sound = emulated_kernel("fa3")->run(p, true);
        r.dq = sound.dq;
        r.dk = sound.dk;
        r.dv = sound.dv;
        r.dv[0] = bf16_code::from_bits(std::uint16_t(r.dv[0].to_bits() ^ 1));
      });
  diagnosis_options options;
  options.pairs = false;
  options.most_calls = 24;
  const diagnosis d = diagnose(*kernel, attention_schedule_named("fa3"), {make_case(space, 1).problem}, space, options);
  CHECK(d.cause == "unknown");
  CHECK_FALSE(d.known);
}

TEST_CASE("shrink: keeps what the test needs and nothing else", "[property][diagnosis]") {
  case_space space;
  space.gradients = true;
  const attention_problem p = make_case(space, "grouped/gauss", 11).problem;
  // Fails while some key's V has a column 3 above 1 and there are two rows.
  const auto fails = [](attention_problem const& x) {
    bool any = false;
    for (std::size_t i = 3; i < x.v.size(); i += std::size_t(x.head_dim)) any = any || (x.v[i].to_bits() > 0x3f80 && !x.v[i].negative());
    return any && x.queries >= 2;
  };
  REQUIRE(fails(p));
  const shrunk_call small = shrink(p, fails);
  CHECK(small.finished);
  CHECK(fails(small.problem));
  CHECK((small.problem.batch == 1 && small.problem.heads == 1 && small.problem.keys == 1 && small.problem.queries == 2 && small.problem.d_o.empty()));
  CHECK(nonzero_elements(small.problem) == 1);
}

}  // namespace stickybit
