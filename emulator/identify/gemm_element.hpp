#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stickybit/identify/gemm_order.hpp"

namespace stickybit::detail {

/// A unit whose blocks the element below can chain by itself; null: FMA.
struct chain_unit {
  machine_unit const* unit = nullptr;
  operand_rounding operands = operand_rounding::cut;
};

/// The products of one element, taken apart once, of which many chains are made: the fast form of the definition in gemm_order.cpp, tested equal to it.
class element_products {
 public:
  /// a, b: K codes of `input`.
  element_products(chain_unit const& by, format input, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b);

  /// The chain over these runs from c. Nothing where the definition must be asked: an operand, c or a result is not finite, or below the smallest normal FP32.
  [[nodiscard]] std::optional<f32_code> chain(std::span<k_run const> runs, f32_code c) const;

  /// Chains from +0 that begin at `begin` and end at begin + step, begin + 2 step, ... and K: the first `ends` of them. `step` is a multiple of the block.
  [[nodiscard]] bool chain_ends(std::int64_t begin, std::int64_t step, std::span<f32_code> ends) const;

 private:
  /// A number on its way through a chain: (negative ? -1 : 1) · significand · 2^(exponent − 23), exponent at least the output's smallest.
  struct running {
    std::int32_t exponent;
    std::uint32_t significand;
    bool negative;
  };
  [[nodiscard]] bool step(std::int64_t begin, std::int64_t end, running& sum) const;
  [[nodiscard]] bool fma_step(std::int64_t begin, std::int64_t end, f32_code& sum) const;
  [[nodiscard]] bool pack(std::int64_t sum, int quantum, running& result) const;
  [[nodiscard]] std::optional<running> start(f32_code c) const;
  [[nodiscard]] static f32_code code_of(running sum);

  machine_unit const* unit_;
  bool finite_ = true;
  int product_fraction_bits_ = 0;
  std::vector<std::int32_t> exponents_;      // of products; far below any for 0
  std::vector<std::int32_t> significands_;   // signed
  std::vector<f32_code> a_, b_;              // FMA only
};

}  // namespace stickybit::detail
