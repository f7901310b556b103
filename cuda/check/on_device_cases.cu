#include <utility>

#include "../support/device.cuh"
#include "on_device.hpp"

// make_unit_case() calls its generator by a pointer of the host's. Here each generator is a kernel of its own; what follows the generator
// is repeated. unit_cases.hpp stays as it is: recorded files name its hash.

namespace stickybit::gpu {
namespace {

constexpr int threads = 128;

/// A row of codes, the first in the lowest bits. Rows are whole 64-bit words.
__device__ void put_row(std::array<std::uint64_t, max_case_products> const& codes, int size, int element_bytes, std::uint64_t* row) {
  const int in_word = 8 / element_bytes, bits = 8 * element_bytes;
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bits);
  for (int k = 0; k < size; k += in_word) {
    std::uint64_t word = 0;
    for (int i = 0; i < in_word; ++i) word |= (codes[std::size_t(k + i)] & mask) << (i * bits);
    row[k / in_word] = word;
  }
}

template <void (*Make)(case_maker&)>
__global__ void __launch_bounds__(threads) made(const __grid_constant__ case_shape shape, int instructions, std::uint64_t generator, std::uint64_t seed, std::uint64_t first,
                                                const __grid_constant__ device_cases x) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= x.count) return;
  random_codes random(seed, generator, first + i);
  case_maker m(shape, random, first + i, instructions);
  Make(m);
  if ((shape.a.padding_bits > 0 || shape.b.padding_bits > 0) && random.one_in(4))
    for (std::size_t k = 0; k < std::size_t(m.x.size); ++k) {
      m.x.a[k] |= random.bits() & shape.a.padding_mask();
      m.x.b[k] |= random.bits() & shape.b.padding_mask();
    }
  const int element_bytes = x.row_bytes / m.x.size;
  put_row(m.x.a, m.x.size, element_bytes, reinterpret_cast<std::uint64_t*>(x.a + i * std::size_t(x.row_bytes)));
  put_row(m.x.b, m.x.size, element_bytes, reinterpret_cast<std::uint64_t*>(x.b + i * std::size_t(x.row_bytes)));
  constexpr case_format f16 = f16_format;
  x.c[i] = shape.output == f16 ? narrow_to_f16(m.x.c) : m.x.c;
}

using maker = void (*)(case_shape const&, int instructions, std::uint64_t generator, std::uint64_t seed, std::uint64_t first, device_cases const&);

template <void (*Make)(case_maker&)>
void make(case_shape const& shape, int instructions, std::uint64_t generator, std::uint64_t seed, std::uint64_t first, device_cases const& x) {
  made<Make><<<unsigned((x.count + threads - 1) / threads), threads>>>(shape, instructions, generator, seed, first, x);
}

template <std::size_t... G>
constexpr std::array<maker, sizeof...(G)> makers_of(std::index_sequence<G...>) {
  return {make<unit_generators[G].make>...};
}
constexpr auto makers = makers_of(std::make_index_sequence<unit_generators.size()>());

}  // namespace

void make_cases_on_device(case_shape const& shape, std::size_t generator, std::uint64_t seed, std::uint64_t first, device_cases const& x) {
  makers.at(generator)(shape, instructions_of(generator, shape), generator, seed, first, x);
  check(cudaGetLastError(), "cases");
}

}  // namespace stickybit::gpu
