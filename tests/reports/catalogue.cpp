// The list of reports: complete, unique, well-formed, and found by what a user types.
#include <algorithm>
#include <set>
#include <string>

#include "stickybit/reports/report.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

bool is_made_of(std::string_view text, std::string_view letters) { return text.find_first_not_of(letters) == text.npos; }

/// https://host/path, and on GitHub https://github.com/owner/repository/(issues|pull)/number or a tree.
bool is_address(std::string const& address) {
  if (!address.starts_with("https://")) return false;
  const std::string rest = address.substr(8);
  const std::size_t slash = rest.find('/');
  if (slash == rest.npos || slash == 0 || rest.find('.') > slash || rest.ends_with('/')) return false;
  if (!is_made_of(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")) return false;
  if (!rest.starts_with("github.com/")) return true;
  const bool numbered = rest.find("/issues/") != rest.npos || rest.find("/pull/") != rest.npos;
  if (numbered && !is_made_of(rest.substr(rest.rfind('/') + 1), "0123456789")) return false;
  return std::count(rest.begin(), rest.end(), '/') == 4 && (numbered || rest.find("/tree/") != rest.npos);
}

std::vector<int> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  for (public_report const* r : matching_reports(text)) numbers.push_back(r->number);
  return numbers;
}

}  // namespace

TEST_CASE("reports: the list is the 36 numbered reports with a small input, and four more on exp and FP8", "[reports]") {
  const std::vector<int> expected{1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25,
                                  27, 28, 29, 30, 32, 33, 34, 35, 37, 40, 42, 43, 44, 46, 47, 48, 49, 50, 51, 52};
  std::vector<int> found;
  for (public_report const& r : all_reports()) found.push_back(r.number);
  CHECK(found == expected);
}

TEST_CASE("reports: ids are unique words, addresses are addresses, and no text is empty or ends in a stop where it should not", "[reports]") {
  std::set<std::string_view> ids, addresses;
  std::size_t count = 0;
  for (public_report const& r : all_reports()) {
    INFO(r.id);
    CHECK(ids.insert(r.id).second);
    CHECK(is_made_of(r.id, "abcdefghijklmnopqrstuvwxyz0123456789-"));
    CHECK(r.id.size() <= 29);  // fits its column
    CHECK(!is_made_of(r.id, "0123456789"));
    CHECK(!r.addresses.empty());
    for (std::string_view address : r.addresses) {
      CHECK(is_address(std::string(address)));
      addresses.insert(address);
      ++count;
    }
    CHECK(r.symptom.size() > 20);
    CHECK_FALSE(r.symptom.ends_with('.'));
    CHECK(r.input.size() > 5);
    CHECK(r.cause.ends_with('.'));
    CHECK((r.caveat.empty() || r.caveat.ends_with('.')));
  }
  CHECK(addresses.size() == count);  // one report, one place
  CHECK(count == 79);
}

TEST_CASE("reports: where the reporters' root cause is not confirmed, the report says so", "[reports]") {
  for (int number : {2, 3, 4, 20, 40}) {
    INFO(number);
    CHECK_THAT(std::string(matching_reports(std::to_string(number)).at(0)->caveat), Contains("root cause is not confirmed"));
  }
}

TEST_CASE("reports: each shows a contrast: two results or more, not all the same, each with a verdict", "[reports]") {
  for (public_report const& r : all_reports()) {
    INFO(r.id);
    std::set<std::string> values;
    std::size_t results = 0;
    for (report_finding const& f : run(r)) {
      CHECK_FALSE(f.quantity.empty());
      CHECK_FALSE(f.right.empty());
      for (report_result const& x : f.results) {
        values.insert(x.value);
        ++results;
        CHECK((x.judged == accuracy::exact) == (x.error_ulp.value_or(x.relative_error.value_or(x.judged == accuracy::exact ? 0 : 1)) == 0));
      }
    }
    CHECK(results >= 2);
    CHECK(values.size() >= 2);
  }
}

TEST_CASE("reports: two runs give the same", "[reports]") {
  for (int number : {1, 20, 47}) {
    public_report const& r = *matching_reports(std::to_string(number)).at(0);
    const auto first = run(r), second = run(r);
    REQUIRE(first.size() == second.size());
    for (std::size_t i = 0; i < first.size(); ++i)
      for (std::size_t j = 0; j < first[i].results.size(); ++j) CHECK(first[i].results[j].value == second[i].results[j].value);
  }
}

TEST_CASE("reports: found by number, id and word, in any case; near ones are named", "[reports]") {
  CHECK(numbers_of("30") == std::vector{30});
  CHECK(numbers_of("fa-2721-v-is-one") == std::vector{5});
  CHECK(numbers_of("FA-2721-V-IS-ONE") == std::vector{5});
  CHECK(numbers_of("deepseek") == std::vector{30});
  CHECK(numbers_of("NaN") == std::vector{1, 6, 15, 16, 18, 43, 44});  // nanoGPT too
  CHECK(numbers_of("flashinfer") == std::vector{10});
  CHECK(numbers_of("121558") == std::vector{6});  // of a thread
  CHECK(numbers_of("domi") == std::vector{7});    // begins a word
  CHECK_THROWS_AS(matching_reports("minant"), unknown_report);
  CHECK_THROWS_AS(matching_reports("9"), unknown_report);  // a number is a number, not part of one
  CHECK_THROWS_AS(matching_reports(""), unknown_report);
  CHECK_THROWS_WITH(matching_reports("nanogtp-explodes"), Contains("'nanogtp-explodes'") && Contains("near: nanogpt-explodes"));
  CHECK_THROWS_WITH(matching_reports("stiky"), Contains("z3-10608-sticky"));
}

TEST_CASE("reports: the headline is the first wrong result of the first quantity, else its first result", "[reports]") {
  const auto result = [](const char* value, accuracy a) { return report_result{"who", value, "", {}, {}, a}; };
  const std::vector<report_finding> findings{{"first", "5", {result("4", accuracy::nearest), result("3", accuracy::wrong), result("2", accuracy::wrong)}},
                                             {"second", "9", {result("8", accuracy::wrong)}}};
  CHECK(headline_of(findings).found == "3");
  CHECK(headline_of(findings).right == "5");
  const std::vector<report_finding> none_wrong{{"first", "5", {result("4", accuracy::nearest), result("5", accuracy::exact)}},
                                               {"second", "9", {result("8", accuracy::wrong)}}};
  CHECK(headline_of(none_wrong).found == "4");
  CHECK(headline_of({}).found.empty());
}
