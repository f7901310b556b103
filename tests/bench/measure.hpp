#pragma once
#include <functional>
#include <string>
#include <vector>

namespace stickybit::bench {

/// One line of the table: work done in a time, beside a reference measured alternately with it in the same run.
struct comparison {
  std::string name, unit;       ///< unit of work: "MAC", "value", ...
  double work;                  ///< units a call
  std::function<void()> run;
  std::string reference_name;   ///< empty: none
  double reference_work;
  std::function<void()> reference;
};

struct result {
  std::string name, unit, reference_name;
  double rate;            ///< units a second: the median call
  double reference_rate;  ///< 0 without a reference
  double ratio;           ///< rate / reference_rate: median over pairs of runs, each pair close in time
  int pairs;
};

/// Pairs of runs until `seconds` have passed, at least five.
[[nodiscard]] result measure(comparison const& c, double seconds = 1.5);

void print(std::vector<result> const& results);
void save_json(std::vector<result> const& results, std::string const& path);

}  // namespace stickybit::bench
