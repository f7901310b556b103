#pragma once
// Data of every picture, as the tests and the sample page draw it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "stickybit/figure/aligned_bits.hpp"
#include "stickybit/figure/bar_chart.hpp"
#include "stickybit/figure/heat_map.hpp"
#include "stickybit/figure/number_line.hpp"
#include "stickybit/figure/softmax_life.hpp"
#include "stickybit/figure/step_chart.hpp"

namespace stickybit::figure {

/// The same numbers everywhere: x ← x · 6364136223846793005 + 1442695040888963407, upper bits, as −1 to 1.
class noise {
 public:
  double operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return double(state_ >> 11) / double(std::uint64_t{1} << 52) - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

/// −4.703990459442139 to BF16, the example of arXiv 2510.04212: more than half, away from zero.
inline rounded sample_rounding() {
  rounded event{};
  (void)round_pack<format::bf16>({}, true, -21, 0x96870f, [&](rounded const& e) { event = e; });
  return event;
}

/// ± magnitude · 2^exponent as a term cut at the quantum.
inline bit_row term_of(std::string label, bool negative, std::uint64_t magnitude, int exponent, int quantum) {
  std::string bits = fmt::format("{:b}", magnitude);
  const int size = int(bits.size()), top = exponent + size - 1;
  return {std::move(label), negative, std::move(bits), top, std::clamp(top - quantum + 1, 0, size), {}};
}

/// The kept part of a term in quanta.
inline std::int64_t quanta_of(bit_row const& r, int quantum) {
  if (r.bits.empty() || r.top_exponent < quantum) return 0;
  const auto kept = std::int64_t(std::stoull(fmt::format("0{}", r.bits.substr(0, std::size_t(r.kept))), nullptr, 2)) << std::max(0, r.top_exponent - int(r.bits.size()) + 1 - quantum);
  return r.negative ? -kept : kept;
}

/// c and products of two significands of 8 bits, cut at 2^-25, added, rounded toward zero to 24 bits. One of the last three products is lost
/// as a whole, one is zero, one is lost far below.
inline aligned_bits_data sample_bits(int products) {
  constexpr int quantum = -25;
  aligned_bits_data data{"A block of products", {}, quantum, {}, {}, {}};
  data.terms.push_back(term_of("c = 0.71875", false, 0xb80000, -24, quantum));
  noise next;
  for (int k = 0; k < products; ++k) {
    const auto a = std::uint64_t(192 + 63 * next()), b = std::uint64_t(192 + 63 * next());
    const int place = k == products - 1 ? -131 : k == products - 3 ? -30 : -int(std::abs(next()) * 16), half = place / 2;
    const bool negative = next() > 0, zero = k == products - 2;
    const double x = std::ldexp(double(a), half - 7), y = std::ldexp(double(b), place - half - 7);
    std::string label = fmt::format("{}: {}{:.4g} × {:.4g}", k, negative ? "−" : "", zero ? 0 : x, y);
    data.terms.push_back(zero ? bit_row{std::move(label), false, "", 0, 0, {}} : term_of(std::move(label), negative, a * b, place - 14, quantum));
  }
  std::int64_t sum = 0;
  for (bit_row const& r : data.terms) sum += quanta_of(r, quantum);
  data.sum = term_of("sum, exact", sum < 0, std::uint64_t(std::abs(sum)), quantum, quantum);
  data.sum->kept = std::min(24, data.sum->kept);
  data.sum->note = fmt::format("{} quanta", sum);
  data.result = data.sum;
  data.result->label = "result, f32";
  data.result->bits.resize(std::size_t(data.sum->kept));
  data.result->note = fmt::format("{}", std::ldexp(double(quanta_of(*data.result, quantum)), quantum));
  data.decision = "Rounding to f32, toward_zero: what is cut off is lost.";
  return data;
}

inline bar_chart_data sample_bars() {
  return {"Mean signed error of O, by rounding point",
          "mean signed error",
          "ulp",
          {{"S = QK, FP32", 0.0004, 0.0011, 0.004},
           {"exp argument", -0.0021, 0.0012, 0.011},
           {"P to BF16", -0.0412, 0.0031, 0.31},
           {"rescale of O", 0.0031, 0.0009, 0.02},
           {"row sum", 0, 0.0001, 0.001},
           {"O to BF16", -0.0007, 0.0029, 0.29},
           {"total", -0.0405, 0.0044, 0.42, true}}};
}

inline step_chart_data sample_steps(int steps) {
  step_chart_data data{"Error so far of one element of O", "key", "error so far", "ulp", {}, {}, false};
  noise next;
  double error = 0;
  for (int i = 0; i < steps; ++i) {
    error += 0.04 * next() - 0.0006;
    if (i == steps / 3) error -= 0.9;
    data.values.push_back(i == steps / 2 ? 2.5 : error);
  }
  if (steps > 2) data.marks = {{steps / 3, fmt::format("key {}: a tie, to even", steps / 3)}, {steps / 2, fmt::format("key {}: peak", steps / 2)}, {steps - 1, "end"}};
  return data;
}

/// A map and the values it looks at.
struct owned_map {
  std::vector<double> values;
  heat_map_data data;

  owned_map(std::vector<double> v, std::int64_t rows, std::int64_t columns)
      : values(std::move(v)), data{"Error of O over queries and columns", "query", "column of O", "ulp", rows, columns, values} {}
  owned_map(owned_map const&) = delete;
};

/// Some columns with a bias of either sign, some with NaN.
inline owned_map sample_map(std::int64_t rows, std::int64_t columns) {
  std::vector<double> values;
  noise next;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const double bias = 0.6 * std::sin(double(j) * 0.37) * (0.2 + double(i) / double(rows));
      const bool hidden = i * 8 < rows && j * 6 > 5 * columns;
      values.push_back(hidden ? std::nan("") : bias + 0.5 * next());
    }
  return {std::move(values), rows, columns};
}

inline softmax_life_data sample_life(int blocks) {
  softmax_life_data data{"One row of the softmax, block by block", {}};
  double maximum = -INFINITY, sum = 0, output = 0;
  noise next;
  for (int i = 0; i < blocks; ++i) {
    const double block_max = 3 + 2 * next() + (i == 11 ? 3.5 : 0), before = maximum;
    maximum = std::max(maximum, block_max);
    const double factor = std::exp(before - maximum);
    sum = sum * factor + 40 * std::exp(block_max - maximum) * 0.3;
    output = output * factor + 12 * next() * std::exp(block_max - maximum);
    data.blocks.push_back({std::int64_t(blocks - 1 - i) * 128, 128, before, maximum, factor, sum, output, std::exp(block_max - maximum)});
  }
  return data;
}

}  // namespace stickybit::figure
