#include "stickybit/explain/add.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

template <format F>
std::string final_step(f32_code sum, double_double exact) {
  recorder<rounded> steps;
  const code<F> result = convert<F>(sum, rounding::nearest_even, steps);
  std::string text = fmt::format("to {}:\n", traits_of(F).name);
  for (rounded const& e : steps.all<rounded>()) text += detail::describe(e, "  ");
  text += fmt::format("  = {}\n", detail::describe(result));
  if (result.is_finite()) {
    const double error = to_double(double_double{to_double(result), 0} - exact);
    text += fmt::format("result {} ({}); exact sum {}; error {} ({} ulp)\n", decimal(result), hex_code(result), exact.hi, error,
                        detail::signed_ulps(error / ulp_at<F>(to_double(result))));
  } else {
    text += fmt::format("result {} ({})\n", decimal(result), hex_code(result));
  }
  return text;
}

}  // namespace

std::string explain_add(std::span<f32_code const> operands, format result) {
  if (operands.size() < 2) throw std::invalid_argument("explain add: expected at least two operands");
  f32_code sum = operands[0];
  double_double exact{to_double(sum), 0};
  std::string text = fmt::format("       {}\n", detail::describe(sum));
  for (f32_code x : operands.subspan(1)) {
    recorder<rounded> steps;
    text += fmt::format("     + {}\n", detail::describe(x));
    sum = add(sum, x, subnormals::kept, steps);
    exact = exact + to_double(x);
    for (rounded const& e : steps.all<rounded>()) text += detail::describe(e, "  ");
    text += fmt::format("  f32  {}\n", detail::describe(sum));
  }
  return text + (result == format::bf16 ? final_step<format::bf16>(sum, exact) : final_step<format::f32>(sum, exact));
}

}  // namespace stickybit
