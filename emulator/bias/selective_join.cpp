#include "selective_join.hpp"

#include <algorithm>
#include <bit>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::detail {
namespace {

/// expf and logf as the build has them: CUDA's own, or with fast math EX2(x·log2 e) and LG2·ln 2; exact where the join does not round.
class natural_functions {
 public:
  natural_functions(call_plan const& plan, selective_arithmetic const& arithmetic) : plan_(plan), arithmetic_(arithmetic), ln2_(log(double_double{2, 0})) {}

  [[nodiscard]] double_double exponential(double_double x) const {
    if (!arithmetic_.rounds(rounding_point::join)) return exp(x);
    if (own()) return real(cuda_expf(*plan_.tables, round_to<format::f32>(x)));
    const double_double log2_e = real(round_to<format::f32>(double_double{1, 0} / ln2_));
    return real(ex2(*plan_.tables, round_to<format::f32>(arithmetic_.mul(rounding_point::join, x, log2_e))));
  }
  [[nodiscard]] double_double logarithm(double_double x) const {
    if (!arithmetic_.rounds(rounding_point::join)) return log(x);
    return own() ? real(cuda_logf(round_to<format::f32>(x))) : mufu_logarithm(x);
  }
  /// LG2·ln 2, both FP32.
  [[nodiscard]] double_double mufu_logarithm(double_double x) const {
    return arithmetic_.mul(rounding_point::join, real(lg2(*plan_.tables, round_to<format::f32>(x))), real(round_to<format::f32>(ln2_)));
  }
  [[nodiscard]] double_double ln2() const noexcept { return ln2_; }

 private:
  [[nodiscard]] bool own() const noexcept { return plan_.rules->scalars == subnormals::kept; }

  call_plan const& plan_;
  selective_arithmetic const& arithmetic_;
  double_double ln2_;
};

}  // namespace

double_double part_lse(call_plan const& plan, selective_arithmetic const& arithmetic, double_double max, double_double sum) {
  const natural_functions natural(plan, arithmetic);
  selective_arithmetic::factors const& f = arithmetic.score_factors();
  // The exact one has the weights' own scale: that L, or s, was rounded is an error of exp_argument.
  if (!arithmetic.rounds(rounding_point::join)) return max * (f.scale_log2 * natural.ln2()) + log(sum);
  return arithmetic.fma(rounding_point::join, max, f.scale, natural.mufu_logarithm(sum));
}

void join_parts(call_plan const& plan, selective_arithmetic const& arithmetic, std::span<split_part const> parts, std::span<double_double> o) {
  using enum rounding_point;
  const natural_functions natural(plan, arithmetic);
  double_double largest{-infinity, 0};
  for (split_part const& part : parts)
    if (!part.empty && largest < part.lse) largest = part.lse;
  std::ranges::fill(o, double_double{});
  if (largest.hi == -infinity) return;

  std::vector<double_double> lanes(std::bit_ceil(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty) lanes[i] = natural.exponential(arithmetic.add(join, parts[i].lse, -largest));
  for (std::size_t half = lanes.size() / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] = arithmetic.add(join, lanes[i], lanes[i + half]);
  const double_double lse = arithmetic.add(join, natural.logarithm(lanes[0]), largest);
  for (split_part const& part : parts) {
    if (part.empty) continue;  // weighs 0
    const double_double weight = natural.exponential(arithmetic.add(join, part.lse, -lse));
    for (std::size_t j = 0; j < o.size(); ++j) o[j] = arithmetic.fma(join, weight, part.o[j], o[j]);
  }
}

}  // namespace stickybit::detail
