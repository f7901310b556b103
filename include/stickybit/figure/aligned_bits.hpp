#pragma once
#include <optional>
#include <string>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// A number as a row of bits; the first of `bits` has the weight 2^top_exponent.
struct bit_row {
  std::string label;  ///< "c", "3: 1.5 × 0.25"
  bool negative = false;
  std::string bits;   ///< '0' and '1', without leading zeros; empty: zero, which takes no part
  int top_exponent = 0;
  int kept = 0;       ///< first bits that stay; those after it are lost
  std::string note;   ///< drawn at the right; empty: how many bits are lost
  std::string tooltip = {};  ///< of the label; empty: the label in full, where it was cut short
};

/// One fixed-point sum: terms aligned at a common quantum, cut there, added, and the sum rounded.
struct aligned_bits_data {
  std::string title;
  std::vector<bit_row> terms;
  int quantum_exponent = 0;        ///< terms lose what is below 2^this
  std::optional<bit_row> sum;      ///< exact; kept: the bits of the result before rounding, the others decide it
  std::optional<bit_row> result;   ///< as packed
  std::string decision;            ///< of the final rounding, one line: "cut toward zero"; may be empty
};

/// Terms as rows of bit cells, one column a power of two. Lost bits are hatched; a line stands at the quantum. A gap of more than three
/// columns without bits becomes one column; bits more than 20 columns below the quantum are said in words, at the right. Three and more zero
/// terms in a row are one row.
[[nodiscard]] scene aligned_bits(aligned_bits_data const& data);

}  // namespace stickybit::figure
