// Two predicted standard errors hold what they should, regime by regime, schedule by schedule.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "predict/calibration.hpp"
#include "predict/regimes.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

namespace {

using namespace stickybit;
using namespace stickybit::test;

attention_schedule named(std::string_view name) { return attention_schedule_named(name); }

void require_biased(calibration const& c) {
  INFO(header_line() << "\n" << line_of(c));
  CHECK(c.biased >= 20);
  CHECK(c.sign_right * 100 >= c.biased * 99);
}

}  // namespace

TEST_CASE("two standard errors hold 95.45% of columns within the 99.9% band, six regimes, FlashAttention-3 and 2", "[predict][calibration]") {
  // Regimes of both halves in which every tensor is in the band; the whole table, with those that are not, is
  // tests/predict/log/calibration.txt.
  fmt::print("{}\n", header_line());
  for (auto const& [name, later] : {std::pair<std::string_view, bool>{"gauss-d64", false}, {"gauss-causal", false}, {"key-mean10", false}, {"half-scores", true}, {"band-wide", true}, {"grouped-four", true}}) {
    const calibration_regime regime = later ? later_regime(name) : first_regime(name);
    for (calibration const& c : calibrate_all(regime.name, {named("fa3"), named("fa2-torch")}, regime.problem)) {
      INFO(header_line() << "\n" << line_of(c));
      fmt::print("{}\n", line_of(c));
      CHECK(c.in_band());
      CHECK_FALSE(c.abstains_too_often());
      CHECK(c.known_off == 0);
    }
  }
}

TEST_CASE("bias that was built in is predicted with its sign; a prediction of 0 is outside the band", "[predict][calibration]") {
  for (auto const& [name, later] : {std::pair<std::string_view, bool>{"one-signed", false}, {"pair-neg-small", false}, {"values-shifted", true}}) {
    const calibration_regime regime = later ? later_regime(name) : first_regime(name);
    for (calibration const& c : calibrate(regime.name, named("fa3"), regime.problem)) {
      if (regime.biased != c.tensor) continue;
      fmt::print("{}\n", line_of(c));
      require_biased(c);
      // Where few steps decide every column there is no band, and the sign is all that can be tested.
      if (c.calibrated != 0) CHECK(std::fabs(double(c.inside_of_zero) / double(c.calibrated) - 0.9545) > c.half_band());
    }
  }
}

TEST_CASE("split keys: each part has its own maximum, and its own casts", "[predict][calibration]") {
  // Eight heads of 256 rows leave SMs idle, so FlashAttention-2 splits the keys; V with a large mean shows at which maximum P is cast.
  const calibration_regime regime = first_regime("value-mean-d128");
  for (calibration const& c : calibrate(regime.name, named("fa2-torch"), regime.problem)) {
    if (c.tensor != "o" && c.tensor != "dq" && c.tensor != "dk") continue;
    INFO(header_line() << "\n" << line_of(c));
    CHECK(c.in_band());
    CHECK(c.mean_square < 1.5);
  }
}

TEST_CASE("captured calls: columns of O, dQ, dK, dV within the band, tensor by tensor", "[predict][captures]") {
  // The emulator gives the captured codes, every one (identify tests), so it stands for them here.
  for (std::filesystem::path const& path : captures("h200")) {
    const std::string name = path.stem().string();
    if (name.starts_with("gemm")) continue;
    for (calibration const& c : calibrate(name, named("fa3"), read_problem(tensor_file::load(path), {}))) {
      INFO(header_line() << "\n" << line_of(c));
      if (c.tensor != "dp") CHECK(c.in_band());
      CHECK(c.steps_fit(2));
    }
  }
}

TEST_CASE("the whole table", "[.long][predict]") {
  // STICKYBIT_TABLE=FILE also writes it; STICKYBIT_SLICE=I,N: every Nth call from the Ith on.
  const char* const table_path = std::getenv("STICKYBIT_TABLE");
  const char* const slice = std::getenv("STICKYBIT_SLICE");
  int part = 0, parts = 1, index = 0;
  if (slice != nullptr) REQUIRE(std::sscanf(slice, "%d,%d", &part, &parts) == 2);
  const auto mine = [&] { return index++ % parts == part; };
  std::ofstream out(table_path == nullptr ? "/dev/null" : table_path);
  const auto print = [&](std::string const& line) { fmt::print("{}\n", line), std::fflush(stdout), out << line << "\n" << std::flush; };
  print(header_line());
  for (std::filesystem::path const& path : captures("h200"))
    if (!path.stem().string().starts_with("gemm") && mine())
      for (calibration const& c : calibrate_all(path.stem().string(), {named("fa3"), named("fa2-torch")}, read_problem(tensor_file::load(path), {}))) print(line_of(c));
  const auto run = [&](calibration_regime const& r) {
    for (calibration const& c : calibrate_all(r.name, {named("fa3"), named("fa2-torch"), named("paper-v2")}, r.problem)) print(line_of(c));
    for (calibration const& c : calibrate(r.name, named("cudnn"), r.problem)) print(line_of(c));
    for (calibration const& c : calibrate(r.name, named("eager-bf16"), r.problem)) print(line_of(c));
  };
  for (std::string_view name : first_regimes())
    if (mine()) run(first_regime(name));
  for (std::string_view name : later_regimes())
    if (mine()) run(later_regime(name));
}
