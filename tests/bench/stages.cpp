// What each stage can do, as a ratio to its definition and to something else measured in the same run.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "inputs.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/rounding/host_arrays.hpp"
#include "stickybit/sfu/arrays.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::bench {
namespace {

constexpr std::size_t at_once = 128;  // values of an array call: a row of a block of scores

template <class Function>
std::function<void()> over(std::vector<f32_code> const& inputs, Function f) {
  return [&inputs, f] {
    std::uint32_t sum = 0;
    for (f32_code x : inputs) sum += f(x);
    witness = sum;
  };
}

template <class Function>
std::function<void()> over_arrays(std::vector<f32_code> const& inputs, Function f) {
  return [&inputs, f] {
    std::array<f32_code, at_once> out;
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i + at_once <= inputs.size(); i += at_once) {
      f(std::span(inputs).subspan(i, at_once), std::span<f32_code>(out));
      sum += out[i / at_once % at_once].to_bits();
    }
    witness = sum;
  };
}

/// What published models of a tensor core reach. @source measured on an AMD EPYC 7003-class VM with 2 cores, one thread
const std::vector<published_rate> peers{
    {"MATLAB-tensor-core b12b5a7", "Octave 7.3, H100TC, 16 x 8 x 64, one thread, AMD EPYC 7003-class VM", 1.42e4, 1.44e4},
    {"MMA-Sim c785138", "Debian torch 1.13, mma m16n8k16 and wgmma m64n64k16, one thread, the same VM", 6.5e4, 1.2e5}};

}  // namespace

void add_scalars(std::vector<comparison>& list) {
  static const std::vector<f32_code> x = [] {
    std::vector<f32_code> inputs;
    for (float v : normals(1 << 20, 6)) inputs.push_back(code_of(-std::fabs(v) * 4));
    return inputs;
  }();
  const f32_code l = f32_code::from_bits(0x3e38aa3b), m = f32_code::from_bits(0xbf9d70a4);
  const auto n = double(x.size());
  static const ex2_rows rows(*sm90().special_functions);
  list.push_back({"rounding: fma.ftz, arrays of 128", "value", n, over_arrays(x, [=](auto in, auto out) { host::fma(in, l, m, out, subnormals::flushed); }),
                  {"its definition", n, over(x, [=](f32_code c) { return fma(c, l, m, subnormals::flushed).to_bits(); })},
                  {"one by one on the host", n, over(x, [=](f32_code c) { return host::fma_ftz(c, l, m).to_bits(); })}});
  list.push_back({"rounding: FP32 to BF16, one by one on the host", "value", n, over(x, [](f32_code c) { return host::to_bf16(c).to_bits(); }),
                  {"its definition", n, over(x, [](f32_code c) { return convert<format::bf16>(c).to_bits(); })}, {}});
  list.push_back({"sfu: ex2, arrays of 128, one core", "value", n, over_arrays(x, [](auto in, auto out) { ex2(rows, in, out); }),
                  {"its definition", n, over(x, [](f32_code c) { return ex2(rows.tables(), c).to_bits(); })},
                  {"std::exp2 (double)", n, over(x, [](f32_code c) { return code_of(float(std::exp2(double(to_float(c))))).to_bits(); })}});
}

void add_files(std::vector<comparison>& list) {
  static const std::vector<std::byte> bytes = tensor_file::load(std::string(STICKYBIT_GOLDEN_DIR) + "/h200/ties_s384_d64_c0.safetensors").to_bytes();
  static std::vector<std::byte> copy(bytes.size());
  list.push_back({"tensor_file: parse, 1.4 MB", "byte", double(bytes.size()), [] { witness = std::uint32_t(tensor_file::parse(bytes, "bench").tensors().size()); }, {},
                  {"memcpy", double(bytes.size()), [] {
                     std::memcpy(copy.data(), bytes.data(), bytes.size());
                     witness = std::uint32_t(copy[copy.size() / 2]);
                   }}});
}

}  // namespace stickybit::bench

/// usage: stickybit_bench [--json FILE] [--only TEXT that a line's name holds] [--longest S of the growth table, 0: none]
int main(int argc, char** argv) {
  using namespace stickybit::bench;
  std::string json, only;
  long long longest = 16384;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--json") json = argv[i + 1];
    if (std::string(argv[i]) == "--longest") longest = std::stoll(argv[i + 1]);
    if (std::string(argv[i]) == "--only") only = argv[i + 1];
  }
  std::vector<comparison> list;
  add_scalars(list);
  add_tensor_cores(list);
  add_attention(list);
  add_gemm_search(list);
  add_files(list);
  add_identification(list);
  add_properties(list);
  std::erase_if(list, [&](comparison const& c) { return c.name.find(only) == std::string::npos; });
  std::vector<result> results;
  double rate = 0;
  for (comparison const& c : list) {
    fmt::print(stderr, "measuring {} ...\n", c.name);
    results.push_back(measure(c));
    if (c.name.starts_with("block_fma: sm90.wgmma.bf16")) rate = results.back().rate;
  }
  fmt::print(stderr, "measuring growth to s = {} ...\n", longest);
  const std::vector<growth_point> growth = attention_growth(longest);
  print(results);
  if (rate > 0) print(peers, rate);
  if (!growth.empty()) print(growth);
  if (!json.empty()) save_json(results, peers, growth, json);
}
