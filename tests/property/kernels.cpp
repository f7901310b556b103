#include "stickybit/property/kernel.hpp"

#include <omp.h>
#include <signal.h>

#include <cstdlib>

#include "stickybit/attention/backward.hpp"
#include "stickybit/property/generators.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace stickybit {
namespace {

attention_problem sample(bool gradients = false) {
  case_space space;
  space.gradients = gradients;
  space.finite = true;
  space.head_dims = {64};
  return make_case(space, "grouped/gauss", 5).problem;
}

/// What the library's kernel does when told to.
failure_kind failure_of(const char* box, std::string& what) {
  ::setenv("STICKYBIT_KERNEL_BOX", box, 1);
  auto kernel = library_kernel(STICKYBIT_KERNEL_LIBRARY, {.seconds = 2});
  try {
    (void)kernel->run(sample(), false);
  } catch (kernel_failure const& failure) {
    what = failure.what();
    ::setenv("STICKYBIT_KERNEL_BOX", "good", 1);
    CHECK(kernel->run(sample(), false).o.size() == sample().q.size());  // started again
    return failure.kind;
  }
  FAIL(box << ": no failure");
  return {};
}

}  // namespace

TEST_CASE("kernels: a library's results come through the child, twice the same", "[property][kernels]") {
  ::setenv("STICKYBIT_KERNEL_BOX", "good", 1);
  auto kernel = library_kernel(STICKYBIT_KERNEL_LIBRARY);
  CHECK_FALSE(kernel->has_backward());
  const attention_problem p = sample();
  const kernel_results r = kernel->run(p, false), exact = emulated_kernel("exact")->run(p, false);
  CHECK(r == kernel->run(p, false));
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < r.o.size(); ++i) differing += r.o[i] != exact.o[i];
  CHECK(differing <= std::int64_t(r.o.size() / 500));  // rounded twice, to FP32 and to BF16
}

TEST_CASE("kernels: crash, hang, memory fault, unwritten output and status are failures with their kind", "[property][kernels]") {
  std::string what;
  CHECK(failure_of("crash", what) == failure_kind::crashed);
  CHECK(failure_of("exit", what) == failure_kind::crashed);
  CHECK(what.find("status 3") != what.npos);
  CHECK(failure_of("hang", what) == failure_kind::hung);
  CHECK(failure_of("status", what) == failure_kind::error);
  CHECK(what.find("17") != what.npos);
  for (const char* box : {"write-input", "read-past", "write-past", "write-before"}) {
    INFO(box);
    CHECK(failure_of(box, what) == failure_kind::memory_fault);
  }
  CHECK(failure_of("unwritten", what) == failure_kind::wrong_output);
  CHECK(what.find("never written") != what.npos);
  ::setenv("STICKYBIT_KERNEL_BOX", "unsupported", 1);
  CHECK_THROWS_AS(library_kernel(STICKYBIT_KERNEL_LIBRARY)->run(sample(), false), unsupported_call);
  CHECK_THROWS_AS(library_kernel("/nowhere/at/all.so"), kernel_failure);
  ::setenv("STICKYBIT_KERNEL_BOX", "good", 1);
}

TEST_CASE("kernels: a callable that crashes or hangs in a child does not end the test; OpenMP works there", "[property][kernels]") {
  const attention_problem p = sample();
  (void)emulated_kernel("fa3")->run(p, false);  // this process has OpenMP threads now
  const auto make = [](forward_function f) { return [f] { return callable_kernel("callable", f); }; };
  auto good = isolated("good", true, [] { return emulated_kernel("fa3"); }, {.seconds = 20});
  CHECK(good->run(sample(true), true) == emulated_kernel("fa3")->run(sample(true), true));
  auto crash = isolated("crash", false, make([](attention_problem const&, kernel_results&) { ::raise(SIGSEGV); }));
  CHECK_THROWS_AS(crash->run(p, false), kernel_failure);
  auto wrong = isolated("wrong", false, make([](attention_problem const&, kernel_results& r) { r.o.resize(3); }));
  try {
    (void)wrong->run(p, false);
    FAIL("no failure");
  } catch (kernel_failure const& failure) {
    CHECK(failure.kind == failure_kind::wrong_output);
  }
  auto thrower = isolated("thrower", false, make([](attention_problem const&, kernel_results&) { throw std::runtime_error("so"); }));
  CHECK_THROWS_AS(thrower->run(p, false), kernel_failure);
}

TEST_CASE("kernels: a command reads and writes safetensors", "[property][kernels]") {
  const attention_problem p = sample(true);
  const std::string command = std::string("sh ") + STICKYBIT_PROPERTY_BOXES + "/program.sh '" + STICKYBIT_COMMAND + "'";
  CHECK(program_kernel(command + " good", true)->run(p, true) == emulated_kernel("fa3")->run(p, true));
  const auto kind_of = [&](const char* box) {
    try {
      (void)program_kernel(command + " " + box, false, {.seconds = 1})->run(p, false);
    } catch (kernel_failure const& failure) {
      return failure.kind;
    }
    FAIL(box << ": no failure");
    return failure_kind{};
  };
  CHECK(kind_of("status") == failure_kind::crashed);
  CHECK(kind_of("nothing") == failure_kind::wrong_output);
  CHECK(kind_of("shape") == failure_kind::wrong_output);
  CHECK(kind_of("hang") == failure_kind::hung);
  CHECK(kind_of("fault") == failure_kind::memory_fault);
  CHECK_THROWS_AS(program_kernel(command + " unsupported", false)->run(p, false), unsupported_call);
}

TEST_CASE("kernels: a command that stays answers call after call; its crash or silence is that call's failure", "[property][kernels]") {
  const attention_problem p = sample(true);
  const auto command = [](const char* box) { return std::string("sh ") + STICKYBIT_PROPERTY_BOXES + "/server.sh '" + STICKYBIT_COMMAND + "' " + box; };
  auto good = server_kernel(command("good"), true);
  for (int i = 0; i < 3; ++i) CHECK(good->run(p, true) == emulated_kernel("fa3")->run(p, true));
  const auto third_of = [&](const char* box, std::string& what) {
    auto kernel = server_kernel(command(box), false, {.seconds = 2});
    const kernel_results sound = kernel->run(p, false);
    try {
      (void)kernel->run(p, false);
    } catch (kernel_failure const& failure) {
      what = failure.what();
      CHECK(kernel->run(p, false) == sound);  // started again
      return failure.kind;
    }
    FAIL(box << ": no failure");
    return failure_kind{};
  };
  std::string what;
  CHECK(third_of("fault", what) == failure_kind::memory_fault);
  CHECK(third_of("exit", what) == failure_kind::crashed);
  CHECK(what.find("these are my last words") != what.npos);
  CHECK(third_of("hang", what) == failure_kind::hung);
  CHECK(third_of("nothing", what) == failure_kind::wrong_output);
  CHECK(third_of("error", what) == failure_kind::error);
  CHECK(third_of("cuda", what) == failure_kind::memory_fault);
  auto refuses = server_kernel(command("unsupported"), false);
  (void)refuses->run(p, false);
  CHECK_THROWS_AS(refuses->run(p, false), unsupported_call);
}

TEST_CASE("kernels: by name", "[property][kernels]") {
  CHECK(kernel_named("emulated:fa3+subtract-first", true)->name() == "emulated:fa3+subtract-first");
  CHECK_THROWS_AS(kernel_named("something", false), std::invalid_argument);
  CHECK_THROWS(kernel_named("emulated:fa9", false));
}

}  // namespace stickybit
