#pragma once
#include <span>
#include <string_view>

#include "stickybit/format/format.hpp"
#include "stickybit/machine/evidence.hpp"
#include "stickybit/rounding/rounding.hpp"

namespace stickybit {

/// Where the accumulator c joins the products of a block.
enum class accumulator_place : std::uint8_t {
  aligned,     ///< a term like any product: it takes part in the maximum and is cut
  added_last,  ///< the block starts from 0; c is added to its result by an ordinary FP32 addition, to nearest even
};

/// One instruction's inner product, as numbers. block_fma() computes what these say.
struct machine_unit {
  std::string_view name;         ///< machine.instruction.input.output
  std::string_view instruction;  ///< the longest form
  format input;
  format output;
  int block_size;                ///< n: products that are aligned and added in one step
  int alignment_fraction_bits;   ///< F: terms are cut at 2^(E−F), E the largest exponent among them
  int min_alignment_exponent;    ///< E is at least this
  rounding output_rounding;
  accumulator_place accumulator;
  std::span<fact const> facts;
  int output_fraction_bits = 23;  ///< of an FP32 result, output_rounding cuts the rest; FP16 results have the format's own 10
};

}  // namespace stickybit
