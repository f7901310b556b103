#pragma once
#include <cmath>
#include <vector>

#include "drawing.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/property/properties.hpp"

// What properties share.

namespace stickybit::detail {

void append_forward_properties(std::vector<attention_property>& all);
void append_relation_properties(std::vector<attention_property>& all);
void append_gradient_properties(std::vector<attention_property>& all);

/// Every number finite, 0 or between 2^-20 and 2^20 in magnitude, and every |score| at most 1024: Q loses powers of two.
void moderate(attention_problem& p);
/// As a property's preparation.
inline bool prepare_moderate(attention_problem& p, attention_schedule const&, study_random&) {
  moderate(p);
  return true;
}
/// Sizes of the keys cut to n, what is left being the first n.
void keep_keys(attention_problem& p, std::int64_t n);
void keep_queries(attention_problem& p, std::int64_t n);

[[nodiscard]] inline std::int64_t visible(attention_schedule const& s, attention_problem const& p, std::int64_t row) {
  return std::int64_t(visible_keys(mask_of(s, p), std::size_t(row), std::size_t(p.queries), std::size_t(p.keys)));
}

/// Collects deviations.
class tally {
 public:
  /// @param by  in units of the tolerance; NaN counts as beyond
  template <class Words>
  void deviate(double by, const char* tensor, std::int64_t index, Words words) {
    if (std::isnan(by)) by = 1e9;
    outcome_.exact = false;
    if (outcome_.index >= 0 && by <= outcome_.deviation) return;
    outcome_.deviation = by;
    outcome_.tensor = std::string(tensor);
    outcome_.index = index;
    outcome_.what = words();
  }
  [[nodiscard]] property_outcome const& outcome() const noexcept { return outcome_; }
  [[nodiscard]] static property_outcome none() {
    property_outcome o;
    o.applies = false;
    return o;
  }

 private:
  property_outcome outcome_;
};

/// max_j |V_jc| of the keys of a head, {d}; and the bound Σ_c |dO_ic| max_j |V_jc| on |dP| of a row.
[[nodiscard]] std::vector<double> largest_values(attention_problem const& p, std::int64_t b, std::int64_t key_head);
[[nodiscard]] double largest_dp(attention_problem const& p, std::vector<double> const& largest_v, std::int64_t b, std::int64_t head, std::int64_t row);

/// x·2^k where x is 0, infinite, NaN or stays normal.
[[nodiscard]] inline bf16_code scaled(bf16_code x, int k) { return bf16_of(std::ldexp(to_double(x), k)); }

}  // namespace stickybit::detail
