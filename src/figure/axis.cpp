#include "axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace stickybit::figure::detail {
namespace {

std::vector<double> linear_ticks(interval values, int wanted) {
  const double rough = (values.hi / 2 - values.lo / 2) / wanted * 2;
  double step = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {2.0, 2.5, 2.0})  // 1, 2, 5, 10 times the power of ten
    if (step < rough) step *= factor;
  std::vector<double> ticks;
  if (!(step > 0) || !std::isfinite(step)) return {values.lo, values.hi};
  const double first = std::ceil(values.lo / step - 1e-9);
  for (int i = 0; i <= 2 * wanted; ++i) {
    const double tick = (first + i) * step;
    if (!std::isfinite(tick) || tick > values.hi + 1e-9 * step) break;
    if (ticks.empty() || tick > ticks.back()) ticks.push_back(tick == 0 ? 0.0 : tick);
  }
  return ticks;
}

/// Powers of ten beyond the knee and zero.
std::vector<double> symlog_ticks(interval values, double knee, int wanted) {
  const int first = int(std::ceil(std::log10(knee) - 0.2));
  const auto side = [&](double end) {
    std::vector<double> ticks;
    if (!(end > 0)) return ticks;
    const int last = int(std::floor(std::log10(end)));
    const int stride = std::max(1, (last - first) / std::max(1, wanted / 2) + 1);
    for (int e = last; e >= first && int(ticks.size()) < wanted; e -= stride) ticks.push_back(std::pow(10.0, e));
    return ticks;
  };
  std::vector<double> ticks;
  for (double t : side(-values.lo)) ticks.push_back(-t);
  if (values.lo <= 0 && values.hi >= 0) ticks.push_back(0);
  const std::vector<double> positive = side(values.hi);
  ticks.insert(ticks.end(), positive.rbegin(), positive.rend());
  return ticks;
}

}  // namespace

std::string typeset(std::string text) {
  if (text.empty() || text.find_first_not_of("0123456789.+-e") != text.npos) return text == "inf" ? "∞" : text == "-inf" ? "−∞" : text;
  if (const auto e = text.find('e'); e != text.npos && e + 1 < text.size()) {
    std::string exponent = text.substr(e + 1);
    const bool negative = exponent[0] == '-';
    exponent.erase(0, exponent.find_first_not_of("+-0"));
    text = text.substr(0, e) + (negative ? "e−" : "e") + exponent;
  }
  return text[0] == '-' ? "−" + text.substr(1) : text;
}

std::string number_text(double v, int digits) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "∞" : "−∞";
  return typeset(fmt::format("{:.{}g}", v == 0 ? 0.0 : v, digits));
}

std::string signed_text(double v, int digits) { return fmt::format("{}{}", v > 0 ? "+" : "", number_text(v, digits)); }

std::string counted(std::int64_t n, std::string_view noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }

std::string power_of_two(int exponent) {
  constexpr std::string_view raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = "2";
  for (char c : fmt::format("{}", exponent)) text += c == '-' ? "⁻" : raised[c - '0'];
  return text;
}

interval interval_of(std::vector<double> const& values, bool with_zero) {
  bool any = with_zero;
  interval found{0, 0};
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    found = any ? interval{std::min(found.lo, v), std::max(found.hi, v)} : interval{v, v};
    any = true;
  }
  return found;
}

scale::scale(interval values, double first_pixel, double last_pixel, double knee)
    : values_(values), first_pixel_(first_pixel), last_pixel_(last_pixel), knee_(knee) {
  const double size = std::max(std::abs(values.lo), std::abs(values.hi));
  const double least = std::max(size * 1e-12, 1e-300);  // a narrower interval has no room for different ticks
  if (values.hi / 2 - values.lo / 2 < least) {
    const double margin = size > 0 && size < 1e300 ? std::max(size / 2, 1e-290) : 1;
    values_ = size < 1e300 ? interval{values.lo - margin, values.hi + margin} : interval{std::min(values.lo, 0.0), std::max(values.hi, 0.0)};
  }
}

double scale::bent(double v) const { return knee_ > 0 ? std::copysign(std::log10(1 + std::abs(v) / knee_), v) : v / 2; }

double scale::operator()(double v) const {
  const double lo = bent(values_.lo), part = (bent(v) - lo) / (bent(values_.hi) - lo);
  return first_pixel_ + (last_pixel_ - first_pixel_) * std::clamp(part, 0.0, 1.0);
}

std::vector<double> scale::ticks(int wanted) const { return knee_ > 0 ? symlog_ticks(values_, knee_, wanted) : linear_ticks(values_, wanted); }

std::vector<std::string> tick_texts(std::vector<double> const& ticks) {
  std::vector<std::string> texts;
  for (int digits = 3; digits <= 17; ++digits) {
    texts.clear();
    for (double t : ticks) texts.push_back(number_text(t, digits));
    if (std::set<std::string>(texts.begin(), texts.end()).size() == texts.size()) break;
  }
  return texts;
}

void draw_value_axis(scene& picture, scale const& y, double left, double right, int wanted) {
  const std::vector<double> ticks = y.ticks(wanted);
  const std::vector<std::string> texts = tick_texts(ticks);
  double last_text = 1e9;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = y(ticks[i]);
    picture.add(line{left, at, right, at, ticks[i] == 0 ? role::axis : role::grid, 1});
    if (std::abs(at - last_text) < 13) continue;
    last_text = at;
    picture.add(text{left - 8, at + 4, texts[i], anchor::end, role::muted, 11});
  }
}

}  // namespace stickybit::figure::detail
