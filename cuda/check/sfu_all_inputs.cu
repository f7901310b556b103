// Every input of ex2, rcp, rsqrt and lg2 `.approx.ftz.f32`: the instruction against sfu/sfu.hpp, on the host (what users run) and
// compiled for the device, bit for bit, NaN included. A control, one coefficient changed by one, must disagree. Exit status 1 at any mismatch or a
// control that agrees.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "../instruction/special_functions.cuh"
#include "../support/device.cuh"
#include "../support/parallel.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::gpu {
namespace {

using tables = special_function_tables;

struct check_ex2 {
  static constexpr char const* name = "ex2.approx.ftz.f32";
  __device__ static float instruction(float x) { return ex2_approx_ftz_f32(x); }
  __host__ __device__ static f32_code emulated(tables const& t, f32_code x) { return ex2(t, x); }
  static void spoil(tables& t) { ++t.ex2[0].a; }
};
struct check_rcp {
  static constexpr char const* name = "rcp.approx.ftz.f32";
  __device__ static float instruction(float x) { return rcp_approx_ftz_f32(x); }
  __host__ __device__ static f32_code emulated(tables const& t, f32_code x) { return rcp(t, x); }
  static void spoil(tables& t) { ++t.rcp[0].a; }
};
struct check_rsqrt {
  static constexpr char const* name = "rsqrt.approx.ftz.f32";
  __device__ static float instruction(float x) { return rsqrt_approx_ftz_f32(x); }
  __host__ __device__ static f32_code emulated(tables const& t, f32_code x) { return rsqrt(t, x); }
  static void spoil(tables& t) { ++t.rsqrt[0].a; }
};
struct check_lg2 {
  static constexpr char const* name = "lg2.approx.ftz.f32";
  __device__ static float instruction(float x) { return lg2_approx_ftz_f32(x); }
  __host__ __device__ static f32_code emulated(tables const& t, f32_code x) { return lg2(t, x); }
  static void spoil(tables& t) { ++t.lg2[0].a; }
};

constexpr std::uint64_t input_count = std::uint64_t{1} << 32;
constexpr std::uint32_t batch_size = std::uint32_t{1} << 26;
constexpr unsigned threads = 256;

template <class Function>
__global__ void evaluate_batch(std::uint32_t first, f32_code* results) {
  const std::uint32_t i = blockIdx.x * threads + threadIdx.x;
  results[i] = f32_code::from_bits(__float_as_uint(Function::instruction(__uint_as_float(first + i))));
}

/// The same functions compiled for the device: adds the batch's mismatches to *mismatches.
template <class Function>
__global__ void count_batch(tables const* t, std::uint32_t first, f32_code const* results, unsigned long long* mismatches) {
  const std::uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (Function::emulated(*t, f32_code::from_bits(first + i)).to_bits() != results[i].to_bits()) atomicAdd(mismatches, 1ull);
}

struct tally {
  std::atomic<std::uint64_t> compared = 0, mismatches = 0, first = input_count;  // first: the smallest mismatching input
};

/// Adds the mismatches among the results of the inputs first, first + 1, ...
template <class Function>
void compare(tables const& t, std::uint32_t first, std::span<f32_code const> results, tally& total) {
  parallel_ranges(results.size(), [&](std::size_t begin, std::size_t end) {
    std::uint64_t mismatches = 0, smallest = input_count;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t input = first + std::uint32_t(i);
      if (Function::emulated(t, f32_code::from_bits(input)) == results[i]) continue;
      ++mismatches;
      smallest = std::min<std::uint64_t>(smallest, input);
    }
    total.compared += end - begin;
    total.mismatches += mismatches;
    for (std::uint64_t seen = total.first; smallest < seen && !total.first.compare_exchange_weak(seen, smallest);) {}
  });
}

template <class Function>
bool passes(tables const& ours) {
  tables spoiled = ours;
  Function::spoil(spoiled);
  tally total, control;
  std::uint32_t first_result = 0;
  device_array<f32_code> device_results(batch_size);
  device_array<tables> device_tables(1);
  device_tables.upload(std::span(&ours, 1));
  device_array<unsigned long long> device_mismatches(1);
  std::array<unsigned long long, 1> on_device{0};
  device_mismatches.upload(on_device);
  std::vector<f32_code> results(batch_size);
  for (std::uint64_t first = 0; first < input_count; first += batch_size) {
    evaluate_batch<Function><<<batch_size / threads, threads>>>(std::uint32_t(first), device_results.data());
    count_batch<Function><<<batch_size / threads, threads>>>(device_tables.data(), std::uint32_t(first), device_results.data(), device_mismatches.data());
    finish(Function::name);
    device_results.download(results);
    const bool clean = total.mismatches == 0;
    compare<Function>(ours, std::uint32_t(first), results, total);
    if (clean && total.mismatches != 0) first_result = results[std::size_t(total.first - first)].to_bits();
    // Inputs in [1, 2): there each function's row 0 is used.
    if (first == 0x3c000000) compare<Function>(spoiled, 0x3f800000, std::span(results).subspan(0x3f800000 - 0x3c000000), control);
  }
  std::printf("%s: %llu mismatches of %llu\n", Function::name, static_cast<unsigned long long>(total.mismatches), static_cast<unsigned long long>(total.compared));
  if (total.mismatches != 0) {
    const auto input = std::uint32_t(total.first);
    std::printf("  first: input 0x%08x, instruction 0x%08x, emulated 0x%08x\n", input, first_result, Function::emulated(ours, f32_code::from_bits(input)).to_bits());
  }
  device_mismatches.download(on_device);
  std::printf("  compiled for the device: %llu mismatches of %llu\n", on_device[0], static_cast<unsigned long long>(input_count));
  std::printf("  control, coefficient a of row 0 plus 1: %llu mismatches of %llu%s\n", static_cast<unsigned long long>(control.mismatches),
              static_cast<unsigned long long>(control.compared), control.mismatches == 0 ? ", but there must be some" : "");
  std::fflush(stdout);
  return total.compared == input_count && total.mismatches == 0 && on_device[0] == 0 && control.mismatches != 0;
}

bool run() {
  const device_description device = describe_device();
  std::printf("GPU: %s\ndriver: %s\nCUDA runtime: %s\n", device.gpu.c_str(), device.driver.c_str(), device.cuda.c_str());
  tables const& ours = *sm90().special_functions;
  bool all = true;
  all = passes<check_ex2>(ours) && all;
  all = passes<check_rcp>(ours) && all;
  all = passes<check_rsqrt>(ours) && all;
  all = passes<check_lg2>(ours) && all;
  return all;
}

}  // namespace
}  // namespace stickybit::gpu

int main() {
  try {
    return stickybit::gpu::run() ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "stickybit-check-sfu: %s\n", error.what());
    return 2;
  }
}
