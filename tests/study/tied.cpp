#include "stickybit/study/tied_rows.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/regimes.hpp"
#include "support/catch.hpp"

namespace stickybit {
namespace {

double bias_of(std::string_view schedule, std::string_view fix, attention_problem const& p, tied_rows const& rows) {
  return error_on_tied_rows(with_fixes(attention_schedule_named(schedule), fix), p, rows).mean_signed_error_ulp;
}

}  // namespace

TEST_CASE("tied rows: every row of the tied regimes has a tied maximum, no row of gauss has", "[study]") {
  for (std::string_view name : {"pair-neg-small", "pair-pos-large", "apart-neg-small", "tied-negative", "tied-zero", "ties"}) {
    INFO(name);
    const attention_problem p = generate(regime_named(name));
    const tied_rows rows(p, mask_alignment::none);
    CHECK(rows.count == p.queries);
  }
  const tied_rows none(generate(regime_named("gauss-d64")), mask_alignment::none);
  CHECK(none.count == 0);
  CHECK(std::ranges::count(none.tied, 0) == std::ssize(none.tied));
}

TEST_CASE("tied rows: a quarter of an ulp of bias, its side by the rounding order", "[study]") {
  struct expected {
    std::string_view regime;
    int paper, kernel;  // sign of the bias
  };
  for (expected const& e : {expected{"pair-neg-small", -1, +1}, expected{"pair-neg-large", -1, -1}, expected{"pair-pos-small", +1, -1}, expected{"pair-pos-large", +1, +1}}) {
    INFO(e.regime);
    const attention_problem p = generate(regime_named(e.regime));
    const tied_rows rows(p, mask_alignment::none);
    const double paper = e.paper * bias_of("paper-v2", "none", p, rows);
    CHECK(paper > 0.15);
    CHECK(paper < 0.3);
    for (std::string_view kernel : {"fa3", "fa2-torch"}) {
      INFO(kernel);
      const double bias = e.kernel * bias_of(kernel, "none", p, rows);
      CHECK(bias > 0.15);
      CHECK(bias < 0.3);
    }
  }
}

TEST_CASE("tied rows: beta ends the bias; with two row sums the kernels have it back, the paper's order has not", "[study]") {
  for (std::string_view name : {"pair-neg-small", "pair-pos-small"}) {
    INFO(name);
    const attention_problem p = generate(regime_named(name));
    const tied_rows rows(p, mask_alignment::none);
    // Rows of one pair share the error of its weight: 64 independent ones of 0.43 ulp at most.
    CHECK(std::abs(bias_of("fa3", "beta", p, rows)) < 0.12);
    CHECK(std::abs(bias_of("paper-v2", "beta", p, rows)) < 0.12);
    CHECK(std::abs(bias_of("paper-v2", "beta+two-row-sums", p, rows)) < 0.06);
    CHECK(std::abs(bias_of("fa3", "two-row-sums", p, rows)) > 0.15);
    CHECK(bias_of("fa3", "beta+two-row-sums", p, rows) == bias_of("fa3", "none", p, rows));
  }
}

TEST_CASE("tied rows: the paper's beta of 7 underflows where the tied maximum is large", "[study]") {
  const attention_problem p = generate(regime_named("pair-neg-small"));
  const tied_rows rows(p, mask_alignment::none);
  CHECK(bias_of("fa3", "beta:preset=v2", p, rows) > 100);
}

}  // namespace stickybit
