#include "stickybit/explain/error_map.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/figure/heat_map.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

bool of_keys(std::string_view tensor) { return tensor == "dk" || tensor == "dv"; }

/// [rows × d], of a key head the sum over its query heads.
std::vector<double_double> exact_values(attention_problem const& p, mask_alignment mask, std::string_view tensor, std::int64_t b, std::int64_t head) {
  if (tensor == "o") return exact_head(p, mask, b, head).evaluate().o;
  if (tensor == "dq") return exact_gradients_of_head(p, mask, b, head).evaluate().dq;
  const std::int64_t group = p.heads / p.key_heads;
  std::vector<double_double> sum;
  for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
    const head_gradients g = exact_gradients_of_head(p, mask, b, h).evaluate();
    std::vector<double_double> const& one = tensor == "dk" ? g.dk : g.dv;
    if (sum.empty()) sum = one;
    else
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + one[i];
  }
  return sum;
}

}  // namespace

bool has_error_map(std::string_view tensor) noexcept { return tensor == "o" || tensor == "dq" || of_keys(tensor); }

error_map map_errors(attention_schedule const& schedule, attention_problem const& p, std::string_view tensor, std::vector<bf16_code> const& codes, std::int64_t b, std::int64_t head) {
  const std::vector<double_double> exact = exact_values(p, mask_of(schedule, p), tensor, b, head);
  error_map map{of_keys(tensor) ? p.keys : p.queries, p.head_dim, {}};
  const auto d = std::size_t(p.head_dim), rows = std::size_t(map.rows);
  const row_strides strides = of_keys(tensor) ? p.key_strides() : p.query_strides();
  map.ulps.resize(rows * d);
  for (std::size_t j = 0; j < d; ++j) {
    double squares = 0;
    std::int64_t finite = 0;
    for (std::size_t i = 0; i < rows; ++i)
      if (const double x = exact[i * d + j].hi; std::isfinite(x)) {
        squares += x * x;
        ++finite;
      }
    const double ulp = ulp_at<format::bf16>(std::sqrt(squares / double(std::max<std::int64_t>(1, finite))));
    for (std::size_t i = 0; i < rows; ++i) {
      const double value = to_double(codes[std::size_t(strides.offset(b, head, std::int64_t(i))) + j]);
      const double_double x = exact[i * d + j];
      map.ulps[i * d + j] = std::isfinite(value) && std::isfinite(x.hi) ? to_double(double_double{value, 0} - x) / ulp : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return map;
}

figure::scene map_picture(error_map const& map, std::string_view tensor, std::int64_t head) {
  const std::string_view symbol = tensor == "o" ? "O" : tensor == "dq" ? "dQ" : tensor == "dk" ? "dK" : "dV";
  return figure::heat_map({.title = fmt::format("Signed error of {}, head {}", symbol, head),
                           .row_name = of_keys(tensor) ? "key" : "query",
                           .column_name = fmt::format("column of {}", symbol),
                           .unit = "ulp",
                           .rows = map.rows,
                           .columns = map.columns,
                           .values = map.ulps});
}

}  // namespace stickybit
