#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/reports/report.hpp"

namespace stickybit::cli {

/// A report with its results.
struct report_account {
  public_report const* report;
  std::vector<report_finding> findings;
};

/// "-0.472 ulp"; a percentage where ulps are too many to mean anything; "-" where the error says nothing.
[[nodiscard]] std::string error_text(report_result const& r);

/// Text of at most `width` columns a line, broken at blanks; every line but the first begins with `indent` blanks.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

[[nodiscard]] std::string reports_table(std::vector<report_account> const& accounts);
[[nodiscard]] std::string report_text(report_account const& account);
[[nodiscard]] std::string reports_markdown(std::vector<report_account> const& accounts);

}  // namespace stickybit::cli
