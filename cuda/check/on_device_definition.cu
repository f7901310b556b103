#include "../support/device.cuh"
#include "on_device.hpp"
#include "stickybit/block_fma/block_fma.hpp"

namespace stickybit::gpu {
namespace {

constexpr int threads = 128;

/// The numbers of a unit that differ between NVIDIA's units without scales; all else as machine_unit says, for the compiler to see.
__host__ __device__ machine_unit usual_unit(machine_unit const& of, format a, format b) {
  machine_unit unit{.name = {}, .instruction = {}, .input = a, .output = of.output, .block_size = of.block_size, .alignment_fraction_bits = of.alignment_fraction_bits,
                    .min_alignment_exponent = of.min_alignment_exponent, .output_rounding = of.output_rounding, .accumulator = of.accumulator, .facts = {}};
  unit.output_fraction_bits = of.output_fraction_bits;
  unit.input_b = b;
  unit.instruction_k = of.instruction_k;
  unit.order = of.order;
  unit.converts_to_f16 = of.converts_to_f16;
  unit.flushes_subnormals = of.flushes_subnormals;
  return unit;
}

/// evaluate() without FP64: the operands' formats are known when this is compiled.
template <format A, format B>
__global__ void __launch_bounds__(threads) defined(const __grid_constant__ machine_unit given, const __grid_constant__ device_cases x, std::uint64_t* results) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= x.count) return;
  const machine_unit unit = usual_unit(given, A, B);
  auto const* const a = reinterpret_cast<typename code<A>::bits_type const*>(x.a + i * std::size_t(x.row_bytes));
  auto const* const b = reinterpret_cast<typename code<B>::bits_type const*>(x.b + i * std::size_t(x.row_bytes));
  constexpr int a_bits = traits_of(A).fraction_bits(), b_bits = traits_of(B).fraction_bits();
  const auto product = [&](std::size_t k, detail::special_state& special) {
    return detail::product_term(detail::operand_of(unit, decode(code<A>::from_bits(a[k])), a_bits), detail::operand_of(unit, decode(code<B>::from_bits(b[k])), b_bits), a_bits + b_bits, special);
  };
  const f32_code c = f32_code::from_bits(std::uint32_t(unit.output == format::f16 ? widen_f16(x.c[i]) : x.c[i]));
  const std::size_t count = std::size_t(x.row_bytes) / sizeof(typename code<A>::bits_type);
  results[i] = detail::chain_of_instructions(unit, count, product, c, null_sink{}).to_bits();
}

__device__ constexpr bool is_nan(std::uint64_t bits) { return (bits & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff} << 52; }

/// evaluate()'s FMA of FP64, by the FMA of the GPU's ordinary units.
__device__ std::uint64_t tensor_fma(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr std::uint64_t quiet = std::uint64_t{1} << 51, invalid = 0xfff8000000000000;
  if (is_nan(b)) return b | quiet;
  if (is_nan(c)) return c | quiet;
  if (is_nan(a)) return a | quiet;
  const auto number = [](std::uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); };
  const auto result = std::uint64_t(__double_as_longlong(__fma_rn(number(a), number(b), number(c))));
  return is_nan(result) ? invalid : result;
}

__global__ void __launch_bounds__(threads) defined_chain(bool descending, const __grid_constant__ device_cases x, std::uint64_t* results) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= x.count) return;
  const int size = x.row_bytes / 8;
  auto const* const a = reinterpret_cast<std::uint64_t const*>(x.a + i * std::size_t(x.row_bytes));
  auto const* const b = reinterpret_cast<std::uint64_t const*>(x.b + i * std::size_t(x.row_bytes));
  std::uint64_t sum = x.c[i];
  for (int n = 0; n < size; ++n) {
    const int k = descending ? size - 1 - n : n;
    sum = tensor_fma(a[k], b[k], sum);
  }
  results[i] = sum;
}

__global__ void compared(bool half_output, const __grid_constant__ device_cases x, std::uint64_t const* defined, std::uint64_t first, device_tally* tally) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= x.count) return;
  const std::uint64_t raw = x.d[i];
  const std::uint64_t result = !half_output ? raw : raw > 0xffff ? raw : raw == 0x7fff ? 0x7fffffff : widen_f16(raw);
  if (result == defined[i]) return;
  atomicAdd(&tally->mismatches, 1ULL);
  atomicMin(&tally->first, static_cast<unsigned long long>(first + i));
}

__global__ void negated(std::uint64_t* words, std::size_t count, std::uint64_t signs) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) words[i] ^= signs;
}

unsigned blocks_for(std::size_t count) { return unsigned((count + threads - 1) / threads); }

template <format A, format B = A>
bool launched(machine_unit const& unit, device_cases const& x, std::uint64_t* results) {
  if (unit.input != A || unit.input_b != B) return false;
  defined<A, B><<<blocks_for(x.count), threads>>>(unit, x, results);
  return true;
}

}  // namespace

void define_on_device(device_definition const& definition, device_cases const& x, std::uint64_t* results) {
  using enum format;
  machine_unit const& unit = definition.unit;
  if (unit.arithmetic == block_arithmetic::fma_chain) {
    defined_chain<<<blocks_for(x.count), threads>>>(definition.descending, x, results);
  } else {
    const bool usual = unit.arithmetic == block_arithmetic::aligned_sum && unit.has_usual_rules() && !unit.is_scaled();
    const bool known = usual && (launched<bf16>(unit, x, results) || launched<f16>(unit, x, results) || launched<tf32>(unit, x, results) || launched<e4m3fn>(unit, x, results) ||
                                 launched<e5m2>(unit, x, results) || launched<e4m3fn, e5m2>(unit, x, results) || launched<e5m2, e4m3fn>(unit, x, results));
    if (!known) throw std::invalid_argument(std::string(unit.name) + ": a unit that the device has no definition of");
  }
  check(cudaGetLastError(), "definition");
}

void compare_on_device(bool half_output, device_cases const& x, std::uint64_t const* defined, std::uint64_t first, device_tally* tally) {
  compared<<<blocks_for(x.count), threads>>>(half_output, x, defined, first, tally);
  check(cudaGetLastError(), "comparison");
}

void negate_on_device(std::byte* operands, std::size_t bytes, int element_bytes) {
  const std::uint64_t signs = element_bytes == 1 ? 0x8080808080808080 : element_bytes == 2 ? 0x8000800080008000 : element_bytes == 4 ? 0x8000000080000000 : 0x8000000000000000;
  negated<<<blocks_for(bytes / 8), threads>>>(reinterpret_cast<std::uint64_t*>(operands), bytes / 8, signs);
  check(cudaGetLastError(), "signs");
}

}  // namespace stickybit::gpu
