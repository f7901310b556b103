// What each stage can do, as a ratio to its definition, or to the host doing the same in plain FP32.
#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <random>

#include "measure.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*, const int*, const float*, float*,
            const int*);
void openblas_set_num_threads(int);
}

namespace {

using namespace stickybit;
using bench::comparison;

/// Written so that no loop is optimised away.
volatile std::uint32_t witness;

std::vector<float> normals(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(random);
  return x;
}

std::vector<bf16_code> bf16_normals(std::size_t count, std::uint64_t seed) {
  std::vector<bf16_code> codes;
  for (float x : normals(count, seed)) codes.push_back(convert<format::bf16>(code_of(x)));
  return codes;
}

template <class Function>
std::function<void()> over(std::vector<f32_code> const& inputs, Function f) {
  return [&inputs, f] {
    std::uint32_t sum = 0;
    for (f32_code x : inputs) sum += f(x);
    witness = sum;
  };
}

void scalars(std::vector<comparison>& list, std::vector<f32_code> const& x) {
  const f32_code l = f32_code::from_bits(0x3e38aa3b), m = f32_code::from_bits(0xbf9d70a4);
  const auto n = double(x.size());
  list.push_back({"rounding: fma.ftz, host form", "value", n, over(x, [=](f32_code c) { return host::fma_ftz(c, l, m).to_bits(); }), "its integer definition", n,
                  over(x, [=](f32_code c) { return fma(c, l, m, subnormals::flushed).to_bits(); })});
  list.push_back({"rounding: FP32 to BF16, host form", "value", n, over(x, [](f32_code c) { return host::to_bf16(c).to_bits(); }), "its integer definition", n,
                  over(x, [](f32_code c) { return convert<format::bf16>(c).to_bits(); })});
  special_function_tables const& t = *sm90().special_functions;
  list.push_back({"sfu: ex2 (integers)", "value", n, over(x, [&t](f32_code c) { return ex2(t, c).to_bits(); }), "std::exp2 (double)", n,
                  over(x, [](f32_code c) { return code_of(float(std::exp2(double(to_float(c))))).to_bits(); })});
}

void products(std::vector<comparison>& list) {
  static const int size = 512;
  static const auto a = bf16_normals(std::size_t(size * size), 1), b = bf16_normals(std::size_t(size * size), 2);
  static const auto fa = normals(std::size_t(size * size), 1), fb = normals(std::size_t(size * size), 2);
  static std::vector<float> fc(std::size_t(size * size));
  machine_unit const& unit = unit_named("sm90.wgmma.bf16.f32");
  const gemm_problem whole{size, size, size, a, b, {}};
  const gemm_problem few{8, size, size, std::span(a).first(std::size_t(8 * size)), b, {}};
  const auto emulate = [&unit](gemm_problem p, engine how) {
    return [&unit, p, how] {
      const int threads = omp_get_max_threads();
      omp_set_num_threads(1);
      witness = gemm(unit, p, 1, how).back().to_bits();
      omp_set_num_threads(threads);
    };
  };
  const auto sgemm = [] {
    const float one = 1, zero = 0;
    openblas_set_num_threads(1);
    sgemm_("T", "N", &size, &size, &size, &one, fb.data(), &size, fa.data(), &size, &zero, fc.data(), &size);
    witness = code_of(fc.back()).to_bits();
  };
  const double macs = double(size) * size * size;
  list.push_back({"block_fma: sm90 bf16, fast, 512 x 512 x 512, one core", "MAC", macs, emulate(whole, engine::fast), "its integer definition, 8 x 512 x 512", macs * 8 / size,
                  emulate(few, engine::definition)});
  list.push_back({"block_fma: sm90 bf16, fast, 512 x 512 x 512, one core", "MAC", macs, emulate(whole, engine::fast), "OpenBLAS sgemm, one thread", macs, sgemm});
}

attention_problem head(std::int64_t sequence, std::int64_t head_dim) {
  attention_problem p;
  p.queries = p.keys = sequence;
  p.head_dim = head_dim;
  p.softmax_scale = 1 / std::sqrt(double(head_dim));
  const auto count = std::size_t(sequence * head_dim);
  p.q = bf16_normals(count, 3);
  p.k = bf16_normals(count, 4);
  p.v = bf16_normals(count, 5);
  p.d_o = bf16_normals(count, 7);
  return p;
}

void attentions(std::vector<comparison>& list) {
  static const attention_problem large = head(1024, 128), small = head(128, 128);
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const auto macs = [](attention_problem const& p) { return 2.0 * double(p.queries) * double(p.keys) * double(p.head_dim); };
  const auto emulate = [&fa3](attention_problem const& p, engine how) {
    return [&fa3, &p, how] { witness = attention_forward(fa3, p, how).o.back().to_bits(); };
  };
  list.push_back({fmt::format("attention: fa3 forward, one head, s 1024, d 128, {} threads", omp_get_max_threads()), "MAC", macs(large), emulate(large, engine::fast),
                  "the integer definitions, s 128", macs(small), emulate(small, engine::definition)});
  const auto exact = [](attention_problem const& p) {
    return [&p] {
      const auto rows = [&](std::vector<bf16_code> const& m) { return bf16_rows{m.data(), std::size_t(p.keys), std::size_t(p.head_dim), std::size_t(p.head_dim)}; };
      witness = std::uint32_t(exact_attention(rows(p.q), rows(p.k), rows(p.v), p.softmax_scale, mask_alignment::none).evaluate().o.back().hi > 0);
    };
  };
  list.push_back({"exact: O in double-double, one head, s 1024, d 128", "MAC", macs(large), exact(large), "fa3 forward, fast, the same head", macs(large), emulate(large, engine::fast)});
}

void gradients(std::vector<comparison>& list) {
  static const attention_problem large = head(1024, 128), small = head(128, 128);
  static attention_schedule const& fa3 = attention_schedule_named("fa3");
  static const attention_schedule corrected = with_fixes(fa3, "gproj");
  static const forward_result of_large = attention_forward(fa3, large), of_small = attention_forward(fa3, small);
  const auto macs = [](attention_problem const& p) { return 5.0 * double(p.queries) * double(p.keys) * double(p.head_dim); };
  const auto emulate = [](attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, engine how) {
    return [&schedule, &p, &forward, how] {
      backward_options options;
      options.how = how;
      witness = attention_backward(schedule, p, forward, options).dq.back().to_bits();
    };
  };
  list.push_back({fmt::format("attention: fa3 backward, one head, s 1024, d 128, {} threads", omp_get_max_threads()), "MAC", macs(large), emulate(fa3, large, of_large, engine::fast),
                  "the integer definitions, s 128", macs(small), emulate(fa3, small, of_small, engine::definition)});
  list.push_back({"fix: gproj (dQ and dK), the same head", "MAC", macs(large), emulate(corrected, large, of_large, engine::fast), "fa3 backward without it", macs(large),
                  emulate(fa3, large, of_large, engine::fast)});
  const auto exact = [] {
    const auto rows = [&](std::vector<bf16_code> const& m) { return bf16_rows{m.data(), std::size_t(large.keys), std::size_t(large.head_dim), std::size_t(large.head_dim)}; };
    witness = std::uint32_t(exact_gradients(rows(large.q), rows(large.k), rows(large.v), rows(large.d_o), large.softmax_scale, mask_alignment::none).evaluate().dq.back().hi > 0);
  };
  list.push_back({"exact: gradients in double-double, the same head", "MAC", macs(large), exact, "fa3 backward, fast", macs(large), emulate(fa3, large, of_large, engine::fast)});
}

void files(std::vector<comparison>& list) {
  static const std::vector<std::byte> bytes = tensor_file::load(std::string(STICKYBIT_GOLDEN_DIR) + "/h200/ties_s384_d64_c0.safetensors").to_bytes();
  static std::vector<std::byte> copy(bytes.size());
  list.push_back({"tensor_file: parse, 1.4 MB", "byte", double(bytes.size()), [] { witness = std::uint32_t(tensor_file::parse(bytes, "bench").tensors().size()); }, "memcpy",
                  double(bytes.size()), [] {
                    std::memcpy(copy.data(), bytes.data(), bytes.size());
                    witness = std::uint32_t(copy[copy.size() / 2]);
                  }});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string json = argc == 3 && std::string(argv[1]) == "--json" ? argv[2] : "";
  std::vector<f32_code> inputs;
  for (float x : normals(1 << 20, 6)) inputs.push_back(code_of(-std::fabs(x) * 4));
  std::vector<comparison> list;
  scalars(list, inputs);
  products(list);
  attentions(list);
  gradients(list);
  files(list);
  std::vector<bench::result> results;
  for (comparison const& c : list) {
    fmt::print(stderr, "measuring {} ...\n", c.name);
    results.push_back(bench::measure(c));
  }
  bench::print(results);
  if (!json.empty()) bench::save_json(results, json);
}
