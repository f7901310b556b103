#include "account.hpp"

#include <fmt/format.h>

#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::detail {
namespace {

template <format F>
std::string value_text(code<F> c) {
  if (c.is_nan()) return "NaN";
  if (c.is_infinite()) return c.negative() ? "-infinity" : "infinity";
  return decimal(c);
}

double_double settled(double_double exact) {
  const double_double near{to_double(round_to<format::f32>(exact)), 0};
  const double distance = std::fabs(to_double(exact - near));
  return distance <= std::fabs(exact.hi) * 0x1p-70 ? near : exact;
}

}  // namespace

std::string text_of(double exact) { return fmt::format("{:.15g}", exact == 0 ? 0.0 : exact); }
std::string text_of(double_double exact) { return text_of(to_double(exact)); }

template <format F>
report_result judged(std::string who, code<F> c, double_double exact) {
  report_result r{std::move(who), value_text(c), hex_code(c), {}, {}, accuracy::wrong};
  exact = settled(exact);
  if (!c.is_finite() || !std::isfinite(exact.hi)) return r;
  const double error = to_double(double_double{to_double(c), 0} - exact);
  if (exact.hi != 0) {
    r.error_ulp = error / ulp_at<F>(exact.hi);
    r.relative_error = error / std::fabs(exact.hi);
  }
  const double value = to_double(c);
  const auto is_rounded = [&](rounding mode) { return value == to_double(round_to<F>(exact, mode)); };
  if (error == 0) r.judged = accuracy::exact;
  else if (is_rounded(rounding::nearest_even)) r.judged = accuracy::nearest;
  else if (is_rounded(rounding::toward_negative) || is_rounded(rounding::toward_positive)) r.judged = accuracy::neighbour;
  return r;
}
template report_result judged(std::string, bf16_code, double_double);
template report_result judged(std::string, f16_code, double_double);
template report_result judged(std::string, tf32_code, double_double);
template report_result judged(std::string, f32_code, double_double);

template <format F>
report_result stated(std::string who, code<F> c, accuracy a) {
  return {std::move(who), value_text(c), hex_code(c), {}, {}, a};
}
template report_result stated(std::string, bf16_code, accuracy);
template report_result stated(std::string, f32_code, accuracy);
template report_result stated(std::string, e4m3fn_code, accuracy);

report_result measured(std::string who, double value, double exact, double tolerance, std::string_view unit) {
  const double error = value - exact;
  report_result r{std::move(who), fmt::format("{:.4g}{}{}", value == 0 ? 0.0 : value, unit.empty() ? "" : " ", unit), {}, {}, {}, accuracy::wrong};
  if (exact != 0) r.relative_error = error / std::fabs(exact);
  if (error == 0) r.judged = accuracy::exact;
  else if (std::fabs(error) <= tolerance) r.judged = accuracy::close;
  return r;
}

}  // namespace stickybit::detail
