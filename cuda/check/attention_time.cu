// TFLOP/s of our kernels on random numbers; PyTorch's beside them: time_attention.py.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "../record/random_codes.hpp"
#include "../support/device.cuh"
#include "attention_check.hpp"
#include "attention_origin.hpp"

namespace stickybit::gpu {
namespace {

/// About normal BF16 numbers, the same million again and again from another place.
void fill(device_array<std::uint16_t>& x, std::size_t size, std::uint64_t stream) {
  random_codes r(1, 7, stream);
  std::vector<std::uint16_t> codes(std::size_t{1} << 20);
  for (std::uint16_t& code : codes) {
    const std::uint64_t bits = r.bits();
    const auto sum = static_cast<float>(double(bits & 0xffff) + double(bits >> 16 & 0xffff) + double(bits >> 32 & 0xffff) + double(bits >> 48) - 131070);
    code = std::uint16_t(std::bit_cast<std::uint32_t>(sum * (1.7320508f / 65536)) >> 16);
  }
  for (std::size_t at = 0; at < size; at += codes.size() - 1000)
    check(cudaMemcpy(x.data() + at, codes.data(), std::min(codes.size(), size - at) * 2, cudaMemcpyHostToDevice), "random numbers");
}

template <class Launch>
float median_ms(Launch const& launch, double expected_tflop) {
  const int runs = std::clamp(int(40 / std::max(expected_tflop, 0.1)), 5, 60);
  for (int i = 0; i < 4; ++i) launch();
  std::vector<cudaEvent_t> events(std::size_t(runs) + 1);
  for (cudaEvent_t& e : events) check(cudaEventCreate(&e), "event");
  check(cudaEventRecord(events[0]), "event");
  for (int i = 0; i < runs; ++i) {
    launch();
    check(cudaEventRecord(events[std::size_t(i) + 1]), "event");
  }
  finish("timed kernel");
  std::vector<float> times(std::size_t(runs), 0.0f);
  for (std::size_t i = 0; i < times.size(); ++i) check(cudaEventElapsedTime(&times[i], events[i], events[i + 1]), "event");
  for (cudaEvent_t e : events) cudaEventDestroy(e);
  std::ranges::nth_element(times, times.begin() + runs / 2);
  return times[std::size_t(runs) / 2];
}

struct timed_call {
  std::int64_t s, d;
  bool causal;
};

double time_one(timed_call const& t, kernel::kernel_choice choice, bool backward, bool deterministic, kernel::forward_fixes const& fixes, bool low_output) {
  constexpr std::int64_t h = 16;
  const std::size_t size = std::size_t(h * t.s * t.d);
  const auto make = [&](std::uint64_t stream) {
    device_array<std::uint16_t> x(size);
    fill(x, size, stream);
    return x;
  };
  device_array<std::uint16_t> q = make(1), k = make(2), v = make(3), d_o = make(4), o(size), o_low(size), dq(size), dk(size), dv(size);
  device_array<float> lse(std::size_t(h * t.s));
  const kernel::attention_shape shape{.batch = 1, .queries = t.s, .keys = t.s, .heads = h, .key_heads = h, .head_dim = t.d, .softmax_scale = t.d == 64 ? 0.125 : 0.08838834764831845, .causal = t.causal};
  const auto in = [&](device_array<std::uint16_t> const& x) { return kernel::input_tensor{x.data(), std::int64_t(size), h * t.d, t.d}; };
  const auto out = [&](device_array<std::uint16_t> const& x) { return kernel::output_tensor{x.data(), std::int64_t(size), h * t.d, t.d}; };
  const kernel::forward_call forward{.shape = shape, .fixes = fixes, .q = in(q), .k = in(k), .v = in(v), .o = out(o), .o_low = low_output ? out(o_low) : kernel::output_tensor{}, .lse = lse.data()};
  const double tflop = 4.0 * double(t.s) * double(t.s) * double(t.d) * h * (t.causal ? 0.5 : 1) * 1e-12 * (backward ? 2.5 : 1);
  if (!backward) return tflop / median_ms([&] { kernel::forward(forward, nullptr, choice); }, tflop) * 1e3;
  // What the backward pass reads must be a forward pass's; where there is no such kernel yet, uniform weights.
  try {
    kernel::forward(forward, nullptr, kernel::kernel_choice::automatic);
  } catch (kernel::unsupported_call const&) {
    std::vector<float> uniform(std::size_t(h * t.s), std::log(float(t.s)));
    check(cudaMemcpy(lse.data(), uniform.data(), uniform.size() * 4, cudaMemcpyHostToDevice), "lse");
    fill(o, size, 5);
  }
  device_array<std::byte> workspace(std::max<std::size_t>(1, kernel::backward_workspace_bytes(shape, deterministic)));
  const kernel::backward_call call{.shape = shape, .deterministic = deterministic, .q = in(q), .k = in(k), .v = in(v), .o = in(o), .d_o = in(d_o), .o_low = low_output ? in(o_low) : kernel::input_tensor{},
                                   .lse = lse.data(), .dq = out(dq), .dk = out(dk), .dv = out(dv), .workspace = workspace.data()};
  return tflop / median_ms([&] { kernel::backward(call, nullptr, choice); }, tflop) * 1e3;
}

}  // namespace

void time_kernel(kernel::kernel_choice choice, bool backward, bool deterministic, kernel::forward_fixes const& fixes, bool low_output) {
  std::printf("TFLOP/s, 16 heads, batch 1 (causal: half the work counted)\n%8s %10s %10s %10s %10s\n", "s", "d64", "d64 causal", "d128", "d128 causal");
  for (std::int64_t s : {1024, 2048, 4096, 8192, 16384}) {
    std::printf("%8lld", static_cast<long long>(s));
    for (std::int64_t d : {64, 128})
      for (bool causal : {false, true}) std::printf(" %10.1f", time_one({s, d, causal}, choice, backward, deterministic, fixes, low_output));
    std::printf("\n");
    std::fflush(stdout);
  }
}

std::vector<std::pair<std::string, std::string>> origin_of_results() {
  const device_description device = describe_device();
  return {{"gpu", device.gpu}, {"driver", device.driver}, {"cuda", device.cuda}};
}

int compute_capability() {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "no CUDA device");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "compute capability");
  return 10 * major + minor;
}

}  // namespace stickybit::gpu
