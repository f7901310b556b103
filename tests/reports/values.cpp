// Every report gives the wrong and the right values that were worked out for it by hand, code for code. The literals are here and
// nowhere else: the library computes them.
#include <map>
#include <string>
#include <vector>

#include "stickybit/reports/report.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

struct expected_result {
  std::string value, code;
  accuracy judged;
};
struct expected_finding {
  int number;
  std::string right;
  std::vector<expected_result> results;
};

/// In the order of the reports and of their findings.
std::vector<expected_finding> attention() {
  using enum accuracy;
  return {
      {1, "-4.70399045944214", {{"-4.71875", "0xC097", nearest}, {"-4.703990459442139", "0xC0968717", exact}}},
      {1, "-4.703125", {{"-4.6875", "0xC096", nearest}}},
      {1, "0 ulp", {{"0 ulp", "", exact}, {"-0.2499 ulp", "", wrong}, {"0.2499 ulp", "", wrong}, {"0.000786 ulp", "", close}}},
      {2, "2.35084759333821", {{"2.359375", "0x40170000", wrong}, {"2.34375", "0x40160000", wrong}, {"2.3508474826812744", "0x40167449", nearest}}},
      {3, "0 ulp", {{"-0.2499 ulp", "", wrong}, {"-0.124 ulp", "", wrong}, {"-0.001862 ulp", "", close}, {"-0.06514 ulp", "", wrong}}},
      {4, "0.00390625", {{"0", "0x00000000", wrong}, {"0.00390625", "0x3B800000", exact}}},
      {4, "0.000676901543515572", {{"0", "0x0000", wrong}, {"0.000675201416015625", "0x3A31", nearest}}},
      {5, "1", {{"0.99609375", "0x3F7F", wrong}, {"0.99609375", "0x3F7F", wrong}, {"1", "0x3F80", exact}}},
      {6, "133120", {{"NaN", "0x7FFF", wrong}, {"133120", "0x4802", exact}, {"133120", "0x4802", exact}}},
      {6, "0", {{"7916", "0x45F76000", wrong}, {"0", "0x00000000", exact}, {"0", "0x00000000", exact}}},
      {7, "1", {{"0.999915361404419", "0x3F7FFA74", wrong}, {"1", "0x3F800000", exact}, {"1", "0x3F800000", exact}}},
      {8, "1", {{"1.0644944906234741", "0x3F88415B", wrong}, {"1", "0x3F800000", exact}}},
      {8, "1", {{"1.133148431777954", "0x3F910B02", wrong}, {"1", "0x3F800000", exact}}},
      {10, "1", {{"0", "0x00000000", wrong}, {"1.001267433166504", "0x3F802988", wrong}, {"1", "0x3F800000", exact}}},
      {10, "1", {{"1", "0x3F80", exact}}},
      {12, "1", {{"0.9888129830360413", "0x3F7D22D9", wrong}, {"0.9999998807907104", "0x3F7FFFFE", wrong}}},
      {14,
       "0.0028076171875",
       {{"0.0184326171875", "0x3C970000", wrong},
        {"0.0028076171875", "0x3B380000", exact},
        {"0.0028076171875", "0x3B380000", exact},
        {"0.0027618408203125", "0x3B350000", wrong}}},
      {14, "0", {{"0.000244140625", "0x39800000", wrong}}},
      {15,
       "none: the mean over no keys is 0/0, and what stands there is a convention",
       {{"NaN", "0x7FFFFFFF", open}, {"3", "0x40400000", open}, {"0", "0x0000", open}, {"0", "0x0000", open}}},
      {16,
       "-infinity, the logarithm of an empty sum; in use is what makes the backward pass give 0",
       {{"-infinity", "0xFF800000", open}, {"infinity", "0x7F800000", open}, {"NaN", "0x7FFFFFFF", open}}},
      {17, "0", {{"0.5", "0x3F000000", wrong}, {"0", "0x0000", exact}, {"0", "0x0000", exact}}},
      {18, "2", {{"NaN", "0x7FFF", wrong}, {"NaN", "0x7FFF", wrong}, {"2", "0x4000", exact}}},
      {18, "2", {{"NaN", "0x7FFF", wrong}, {"NaN", "0x7FFF", wrong}, {"2", "0x4000", exact}}},
      {19, "1.00000011920929", {{"1", "0x3F800000", wrong}, {"1.0000001192092896", "0x3F800001", exact}}},
      {21, "-2.35084759333821", {{"-2.359375", "0xC017", neighbour}, {"-2.34375", "0xC016", nearest}, {"-2.359375", "0xC017", neighbour}}},
  };
}

std::vector<expected_finding> hardware() {
  using enum accuracy;
  return {
      {23, "1.001953125", {{"1", "0x3F800000", wrong}, {"1", "0x3F800000", wrong}, {"1.001953125", "0x3F804000", exact}}},
      {25, "257", {{"256", "0x4380", nearest}, {"257", "0x43808000", exact}}},
      {25, "2049", {{"2048", "0x6800", nearest}, {"2049", "0x45001000", exact}}},
      {25, "1000", {{"256", "0x4380", wrong}, {"1000", "0x63D0", exact}}},
      {27, "1024", {{"256", "0x4380", wrong}, {"1024", "0x4480", exact}, {"1024", "0x44800000", exact}}},
      {28, "128.500015258789", {{"128", "0x4300", neighbour}, {"128", "0x4300", neighbour}, {"129", "0x4301", nearest}}},
      {29, "1", {{"0", "0x0000", wrong}, {"1", "0x3F80", exact}, {"1", "0x3F80", exact}}},
      {30, "1.00018310546875", {{"1.0001220703125", "0x3F800400", wrong}, {"1.0001220703125", "0x3F800400", wrong}, {"1.00018310546875", "0x3F800600", exact}}},
      {32,
       "1.00000011920929",
       {{"1", "0x3F800000", wrong}, {"1.0000001192092896", "0x3F800001", exact}, {"1.0000001192092896", "0x3F800001", exact}, {"1", "0x3F800000", wrong}}},
      {33, "2.80259692864963e-45", {{"0", "0x00000000", wrong}, {"2.802596928649634e-45", "0x00000002", exact}}},
      {33, "7.3468396926393e-40", {{"0", "0x00000000", wrong}, {"7.346839692639297e-40", "0x00080000", exact}}},
      {33,
       "1.00000011920929",
       {{"1", "0x3F800000", wrong}, {"1.0000001192092896", "0x3F800001", exact}, {"1.0000001192092896", "0x3F800001", exact}, {"1", "0x3F800000", wrong}}},
      {34, "1.00000143051147", {{"1", "0x3F800000", wrong}, {"1", "0x3F800000", wrong}, {"1.0000019073486328", "0x3F800010", wrong}}},
      {35, "1024.5", {{"1025", "0x44802000", neighbour}, {"1024", "0x44800000", nearest}, {"1024", "0x44800000", nearest}, {"1024.5", "0x44801000", exact}}},
      {37, "1", {{"0", "0x00000000", wrong}, {"1", "0x3F800000", exact}}},
      {37, "1", {{"1", "0x3F800000", exact}, {"0", "0x00000000", wrong}}},
      {40, "300", {{"256", "0x4380", wrong}, {"300", "0x4396", exact}, {"300", "0x43960000", exact}}},
      {42, "2049", {{"2048", "0x6800", nearest}}},
      {42, "1", {{"1", "", exact}}},
  };
}

std::vector<expected_finding> conversions() {
  using enum accuracy;
  return {
      {43, "0.269140869379044", {{"0.267578125", "0x3E89", neighbour}, {"0.26953125", "0x3E8A", nearest}}},
      {43, "NaN", {{"infinity", "0x7F80", wrong}, {"NaN", "0x7FFF", exact}}},
      {43, "NaN", {{"-0", "0x8000", wrong}, {"NaN", "0x7FFF", exact}}},
      {44, "none: the format has no infinity, and what stands for it is a convention", {{"NaN", "0x7F", open}, {"448", "0x7E", open}}},
      {44, "448 (to even)", {{"448", "0x7E", nearest}, {"448", "0x7E", nearest}}},
      {46, "-4.70399045944214", {{"-4.6875", "0xC096", neighbour}, {"-4.71875", "0xC097", nearest}}},
      {46, "1.01171874999909", {{"1.015625", "0x3F82", neighbour}, {"1.0078125", "0x3F81", nearest}}},
      {47, "2.00000004749745", {{"1", "0x3F80", wrong}, {"1.90625", "0x3FF4", wrong}, {"2.000046730041504", "0x400000C4", wrong}}},
      {47, "0.128005981445312", {{"0", "", wrong}, {"0.128", "", exact}}},
      {48, "16.0625", {{"16", "0x4180", nearest}}},
      {48, "65.75", {{"66", "0x4284", nearest}, {"65.5", "0x4283", neighbour}}},
      {49, "0.507286974906009", {{"0.5072869062423706", "0x3F01DD8E", wrong}}},
      {49, "0", {{"1.354e-07", "", close}}},
      {50, "8.31200026712918e-39", {{"0", "0x00000000", wrong}, {"8.311999424226122e-39", "0x005A8279", neighbour}}},
      {50, "1 and a little: 1 in FP32", {{"1", "0x3F800000", exact}, {"1", "0x3F800000", exact}}},
      {51, "0.595389491992027", {{"0.5809393525123596", "0x3F14B871", wrong}, {"0.5953894853591919", "0x3F186B72", nearest}}},
      {51, "1", {{"0.9701787829399109", "0x3F785DA3", wrong}}},
      {52, "1", {{"0", "0x00000000", wrong}, {"1", "0x3F800000", exact}, {"1", "0x3F800000", exact}}},
  };
}

std::string in_words(report_result const& r) { return fmt::format("{} gives {} {} ({})", r.who, r.value, r.code, name_of(r.judged)); }

}  // namespace

TEST_CASE("reports: every example gives the values worked out by hand, code for code", "[reports][golden]") {
  std::map<int, std::vector<expected_finding>> expected;
  for (auto const& part : {attention(), hardware(), conversions()})
    for (expected_finding const& f : part) expected[f.number].push_back(f);
  testing::tally all("results of reports, but for the seeded gradients of report 20");
  for (public_report const& report : all_reports()) {
    if (report.number == 20) continue;
    const std::vector<report_finding> found = run(report);
    INFO(report.id);
    REQUIRE(found.size() == expected[report.number].size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      expected_finding const& e = expected[report.number][i];
      INFO(found[i].quantity);
      CHECK(found[i].right == e.right);
      REQUIRE(found[i].results.size() == e.results.size());
      for (std::size_t j = 0; j < e.results.size(); ++j) {
        report_result const& r = found[i].results[j];
        const bool holds = r.value == e.results[j].value && r.code == e.results[j].code && r.judged == e.results[j].judged;
        all.expect(holds, [&] { return fmt::format("report {}: {}, not {} {}", report.number, in_words(r), e.results[j].value, e.results[j].code); });
      }
    }
  }
  all.check();
  CHECK(all.cases() == 149);
}

TEST_CASE("reports: keys with a large mean ruin dQ, random ones do not, and either correction repairs it", "[reports]") {
  const std::vector<report_finding> found = run(*matching_reports("te-3216-random-inputs").at(0));
  REQUIRE(found.size() == 2);
  const auto percent = [&](std::size_t finding, std::size_t result) { return std::stod(found[finding].results.at(result).value); };
  for (report_finding const& f : found) REQUIRE(f.results.size() == 4);
  CHECK(percent(0, 0) > 20);  // as the kernel is
  CHECK(percent(0, 1) > 10);  // delta from the FP32 O: the rounding of dS is left
  CHECK(percent(0, 1) < percent(0, 0));
  for (std::size_t corrected : {2, 3}) CHECK(percent(0, corrected) < 0.4);
  for (std::size_t any : {0, 1, 2, 3}) CHECK(percent(1, any) < 0.4);
  for (std::size_t any : {0, 1, 2, 3}) CHECK(percent(1, any) > 0.1);  // the cast of dQ alone
  CHECK(found[0].results[0].judged == accuracy::wrong);
  CHECK(found[0].results[3].judged == accuracy::close);
}

TEST_CASE("reports: errors have the sign and size that the reports tell of", "[reports][golden]") {
  const auto ulps = [](int number, std::size_t finding, std::size_t result) {
    return run(*matching_reports(std::to_string(number)).at(0)).at(finding).results.at(result).error_ulp.value();
  };
  CHECK(ulps(34, 0, 0) == -12);  // exact is 12 ulp above 1, a tensor core adds nothing, FP32 adds 16
  CHECK(ulps(34, 0, 2) == 4);
  CHECK(ulps(1, 1, 0) == 0.5);  // the tie goes up, with the left-over it goes down
  CHECK(std::abs(ulps(1, 0, 0) + 0.014759540557861328 * 32) < 1e-12);
  CHECK(ulps(28, 0, 2) - ulps(28, 0, 1) == 1);  // of BF16 at 128: 1.0
  const report_result d_q = run(*matching_reports("14").at(0)).at(0).results.at(0);
  CHECK(std::abs(d_q.relative_error.value() - (75.5 / 11.5 - 1)) < 1e-12);  // 557 %
}
