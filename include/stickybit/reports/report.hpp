#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Public reports of surprising numbers, each with an input small enough to check by hand. Nothing of what comes out is stored: every
// result is computed by the machines, schedules and fixes of the other stages, every right value by exact arithmetic.

namespace stickybit {

/// What a result is beside the exact value.
enum class accuracy : std::uint8_t {
  exact,      ///< the exact value itself
  nearest,    ///< not exact, but no number of its format is nearer
  neighbour,  ///< the other one of the two numbers of its format between which the exact value lies
  close,      ///< a measured quantity within what its format allows
  wrong,      ///< anything else
  open,       ///< there is no right value, only conventions
};
[[nodiscard]] std::string_view name_of(accuracy a) noexcept;

/// What one machine, schedule, fix or way of rounding gives.
struct report_result {
  std::string who;
  std::string value;                     ///< shortest decimal of the code, or a measured number with its unit
  std::string code;                      ///< hexadecimal; empty where the result is no code
  std::optional<double> error_ulp;       ///< in ulp of the result's format at the exact value; none where that says nothing
  std::optional<double> relative_error;  ///< (result − exact) / |exact|, likewise
  accuracy judged = accuracy::wrong;
};

/// One quantity of a report's example.
struct report_finding {
  std::string quantity;
  std::string right;  ///< the exact value, or why there is none
  std::vector<report_result> results;
};

struct public_report {
  int number;           ///< stable; gaps are reports without a small input
  std::string_view id;  ///< stable, lower case, words joined with '-'
  std::span<std::string_view const> addresses;
  std::string_view symptom;  ///< as the reporters saw it, in one line
  std::string_view input;
  std::string_view cause;
  std::string_view caveat;  ///< what the example does not show; may be empty
  std::vector<report_finding> (*compute)();
};

/// No report of that number, name or word; what() names those that come near.
class unknown_report : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// In ascending order of their numbers.
[[nodiscard]] std::span<public_report const> all_reports();

/// Computes the example: milliseconds, at most a second. The same bits on every machine.
[[nodiscard]] std::vector<report_finding> run(public_report const& report);

/// The report of this number or id; else those of the thread with this number (121558); else those with a word that begins so in their id,
/// addresses or symptom. Upper and lower case are the same.
/// @throws unknown_report where there is none
[[nodiscard]] std::vector<public_report const*> matching_reports(std::string_view text);

/// The pair that a table shows: of the first quantity the first wrong result, or the first result where none is, and the right value beside it.
struct report_headline {
  std::string found, right;
};
[[nodiscard]] report_headline headline_of(std::span<report_finding const> findings);

}  // namespace stickybit
