#pragma once
#include <functional>
#include <string>
#include <vector>

namespace stickybit::bench {

/// Something to measure against.
struct rival {
  std::string name;            ///< empty: none
  double work = 0;             ///< units a call
  std::function<void()> run;
};

/// One line of the table: work done in a time, beside the definition of the same thing and beside another program, all of them
/// measured in turn in the same run.
struct comparison {
  std::string name, unit;  ///< unit of work: "MAC", "value", ...
  double work;             ///< units a call
  std::function<void()> run;
  rival definition;        ///< the integer definitions
  rival other;
};

struct rival_result {
  std::string name;
  double rate = 0;   ///< units a second: the median call
  double ratio = 0;  ///< ours / rate: median over pairs of runs, each pair close in time
};

struct result {
  std::string name, unit;
  double rate;  ///< units a second: the median call
  rival_result definition, other;
  int rounds;
};

[[nodiscard]] double seconds_of(std::function<void()> const& call);

/// Rounds of one call of each until `seconds` have passed, at least five.
[[nodiscard]] result measure(comparison const& c, double seconds = 1.5);

/// A program that others published, as measured elsewhere.
struct published_rate {
  std::string program, how;
  double lowest, highest;  ///< MAC a second
};

/// The processor, its SIMD target as this build uses it, and threads.
[[nodiscard]] std::string host_text();

void print(std::vector<result> const& results);
/// @param rate  ours for the same unit, on one core
void print(std::vector<published_rate> const& peers, double rate);

/// One size of an attention call, measured alone.
struct growth_point {
  long long sequence, head_dim;
  double forward_seconds, backward_seconds;
  double peak_mebibytes;  ///< of the whole process, so far
};
void print(std::vector<growth_point> const& growth);

void save_json(std::vector<result> const& results, std::vector<published_rate> const& peers, std::vector<growth_point> const& growth, std::string const& path);

}  // namespace stickybit::bench
