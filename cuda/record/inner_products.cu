// Records hard BF16 inner products with their results by a tensor-core instruction, as a file of golden vectors:
// a, b BF16 [n,16]; c, d F32 [n]; metadata says where, how and from what seed.
#include <cstdio>
#include <exception>

#include "../support/options.hpp"
#include "../support/safetensors.hpp"
#include "case_generators.hpp"
#include "evaluate_cases.cuh"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-record-inner-products OUT.safetensors [--generator NAME|all] [--seed S] [--count N] [--instruction mma|wgmma]\n"
    "  N cases of each generator (default: all generators, seed 1, 256 cases, mma)\n";

/// @throws std::runtime_error at the first case for which the two instructions differ: then the layout of one is wrong, or a
///   belief of ours about the hardware
void expect_equal(std::span<inner_product_case const> cases, std::span<f32_code const> mma, std::span<f32_code const> wgmma) {
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (mma[i] != wgmma[i])
      throw std::runtime_error("mma.sync and wgmma differ: " + hex(mma[i].to_bits(), 8) + ", " + hex(wgmma[i].to_bits(), 8) + " for " + operands_of(cases[i]));
}

template <class By>
safetensors_writer file_of(std::span<inner_product_case const> cases, std::span<f32_code const> d) {
  std::vector<bf16_code> a, b;
  std::vector<f32_code> c;
  for (inner_product_case const& x : cases) {
    a.insert(a.end(), x.a.begin(), x.a.end());
    b.insert(b.end(), x.b.begin(), x.b.end());
    c.push_back(x.c);
  }
  const device_description device = describe_device();
  safetensors_writer file;
  file.metadata("gpu", device.gpu);
  file.metadata("driver", device.driver);
  file.metadata("cuda", device.cuda);
  file.metadata("unit", By::unit);
  file.metadata("instruction", By::name);
  file.metadata("input_format", "bf16");
  file.metadata("output_format", "fp32");
  file.tensor<bf16_code>("a", "BF16", {cases.size(), 16}, a);
  file.tensor<bf16_code>("b", "BF16", {cases.size(), 16}, b);
  file.tensor<f32_code>("c", "F32", {cases.size()}, c);
  file.tensor<f32_code>("d", "F32", {cases.size()}, d);
  return file;
}

void run(int argc, char** argv) {
  const options line(argc, argv, {"generator", "seed", "count", "instruction"});
  if (line.operands().size() != 1) throw std::invalid_argument("expected one output file");
  const std::string wanted = line.text("generator", "all"), instruction = line.text("instruction", "mma");
  if (instruction != "mma" && instruction != "wgmma") throw std::invalid_argument("--instruction " + instruction + ": expected mma or wgmma");
  const std::uint64_t seed = line.number("seed", 1), count = line.number("count", 256);

  std::vector<inner_product_case> cases;
  std::string names;
  for (std::size_t g = 0; g < case_generators.size(); ++g) {
    if (wanted != "all" && g != generator_named(wanted)) continue;
    (names += names.empty() ? "" : " ") += case_generators[g].name;
    for (std::uint64_t i = 0; i < count; ++i) cases.push_back(make_case(g, seed, i));
  }
  const auto mma = evaluate<by_mma>(cases), wgmma = evaluate<by_wgmma>(cases);
  expect_equal(cases, mma, wgmma);

  safetensors_writer file = instruction == "mma" ? file_of<by_mma>(cases, mma) : file_of<by_wgmma>(cases, wgmma);
  file.metadata("generators", names);
  file.metadata("seed", std::to_string(seed));
  file.metadata("count_per_generator", std::to_string(count));
  file.metadata("generators_sha256", STICKYBIT_GENERATORS_SHA256);  // cat cuda/record/{random_codes,case_generators}.hpp | sha256sum
  file.write(line.operands()[0]);
  std::printf("%s: %zu inner products, seed %llu; mma.sync and wgmma gave equal bits\n", line.operands()[0].c_str(), cases.size(), static_cast<unsigned long long>(seed));
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) {
  try {
    stickybit::gpu::run(argc, argv);
    return 0;
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "stickybit-record-inner-products: %s\n%s", error.what(), stickybit::gpu::usage);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "stickybit-record-inner-products: %s\n", error.what());
    return 1;
  }
}
