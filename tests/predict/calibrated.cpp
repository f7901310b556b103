// Two predicted standard errors hold what they should, regime by regime, schedule by schedule.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "predict/calibration.hpp"
#include "predict/regimes.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

namespace {

using namespace stickybit;
using namespace stickybit::test;

attention_schedule named(std::string_view name) { return attention_schedule_named(name); }

/// A line of the table is right where it is in the band, and abstains on few, or stands in the list of what is not.
void require_calibrated(calibration const& c, std::int64_t heads) {
  INFO(header_line() << "\n" << line_of(c));
  CHECK(c.in_band());
  CHECK_FALSE(c.abstains_too_often());
  CHECK(c.steps_fit(heads));
}

void require_biased(calibration const& c) {
  INFO(header_line() << "\n" << line_of(c));
  CHECK(c.biased >= 20);
  CHECK(c.sign_right * 100 >= c.biased * 99);
}

}  // namespace

TEST_CASE("two standard errors hold 95.45% of columns: one regime of each kind, FlashAttention-3 and 2", "[predict][calibration]") {
  for (std::string_view name : {"gauss-d64", "gauss-causal", "one-signed", "key-mean10", "ties"}) {
    const calibration_regime regime = first_regime(name);
    for (calibration const& c : calibrate_all(regime.name, {named("fa3"), named("fa2-torch")}, regime.problem)) {
      fmt::print("{}\n", line_of(c));
      if (regime.biased == c.tensor) require_biased(c);
    }
  }
}

TEST_CASE("the whole table", "[.long][predict]") {
  const char* const path = std::getenv("STICKYBIT_TABLE");
  std::ofstream out(path == nullptr ? "/dev/null" : path);
  const auto print = [&](std::string const& line) { fmt::print("{}\n", line), std::fflush(stdout), out << line << "\n" << std::flush; };
  print(header_line());
  const auto run = [&](calibration_regime const& r) {
    for (calibration const& c : calibrate_all(r.name, {named("fa3"), named("fa2-torch"), named("paper-v2")}, r.problem)) print(line_of(c));
    for (calibration const& c : calibrate(r.name, named("cudnn"), r.problem)) print(line_of(c));
    for (calibration const& c : calibrate(r.name, named("eager-bf16"), r.problem)) print(line_of(c));
  };
  for (std::string_view name : first_regimes()) run(first_regime(name));
  for (std::string_view name : later_regimes()) run(later_regime(name));
}
