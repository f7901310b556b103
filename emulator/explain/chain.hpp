#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stickybit/explain/account.hpp"

namespace stickybit::detail {

/// A tensor core's chain with its products in one row: what two units can be compared by.
struct product_chain {
  std::vector<std::size_t> blocks;                 ///< steps, first to last
  std::vector<std::size_t> ends;                   ///< products taken after each block
  std::vector<std::pair<double, double>> products; ///< values of a and b, zeros that fill the last block left out
};

/// The chain that ends with step i, back through every block whose c is a block.
[[nodiscard]] product_chain product_chain_of(account const& a, std::size_t i);

/// A stretch of products that both chains end a block at: [first, end), and the blocks of each in it.
struct stretch {
  std::size_t first, end;
  std::size_t block_a, block_b;  ///< the last block of each
};
/// The first stretch after which the chains have different codes; end 0 where there is none.
[[nodiscard]] stretch first_parting(account const& a, product_chain const& chain_a, account const& b, product_chain const& chain_b);

/// "takes k = 0 to 7 (E = 0, cut at 2^-24), then k = 8 to 15 (…): of term 3 the last 2 bits are lost, …"
[[nodiscard]] std::string chain_words(account const& a, product_chain const& chain, stretch where);

}  // namespace stickybit::detail
