#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "commands.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit::cli {
namespace {

template <class Code>
void print_summary(std::string_view name, tensor const& t) {
  std::int64_t nan = 0, infinite = 0;
  double lowest = 0, highest = 0;
  bool any = false;
  for (Code c : t.elements<Code>()) {
    nan += c.is_nan();
    infinite += c.is_infinite();
    if (!c.is_finite()) continue;
    const double x = to_double(c);
    lowest = any ? std::min(lowest, x) : x;
    highest = any ? std::max(highest, x) : x;
    any = true;
  }
  fmt::print("{}: {} {}", name, name_of(t.type), shape_text(t.shape));
  if (any) fmt::print(", {:.6g} to {:.6g}", lowest, highest);
  if (infinite != 0) fmt::print(", {} infinite", infinite);
  if (nan != 0) fmt::print(", {} NaN", nan);
  fmt::print("\n");
}

void print_or_save(tensor_file const& results, std::string const& path) {
  if (!path.empty()) results.save(path);
  for (named_tensor const& t : results.tensors()) {
    if (t.value.type == dtype::bf16) print_summary<bf16_code>(t.name, t.value);
    else print_summary<f32_code>(t.name, t.value);
  }
  if (!path.empty()) fmt::print("written to {}\n", path);
}

int run_gemm(std::string const& path, std::string const& unit_name, int slices, std::string const& output, engine how) {
  const tensor_file file = tensor_file::load(path);
  machine_unit const& unit = unit_named(unit_name);
  const gemm_operands operands = read_gemm_operands(file);
  terminal_progress bar("gemm");
  const std::vector<f32_code> d = gemm(unit, operands.problem(), slices, how, bar.report());
  tensor_file results(output);
  results.metadata = {{"stickybit", STICKYBIT_VERSION}, {"unit", std::string(unit.name)}, {"split_k", std::to_string(slices)}, {"fix", "none"}};
  results.add("d_f32", make_tensor<f32_code>(dtype::f32, {operands.m, operands.n}, d));
  results.add("d_bf16", make_tensor<bf16_code>(dtype::bf16, {operands.m, operands.n}, to_bf16(d)));
  print_or_save(results, output);
  return 0;
}

int run_attention(attention_options const& options, std::vector<std::string> const& wanted, std::string const& output) {
  const tensor_file file = tensor_file::load(options.file);
  const attention_problem problem = read_problem(file, options.overrides());
  const attention_schedule schedule = options.chosen_schedule();
  terminal_progress bar("attention");
  const forward_result result = attention_forward(schedule, problem, engine_named(options.engine_name), bar.report());
  tensor_file results(output);
  results.metadata = {{"stickybit", STICKYBIT_VERSION},
                      {"schedule", std::string(schedule.name)},
                      {"unit", std::string(schedule.unit)},
                      {"fix", options.fix},
                      {"layout", std::string(name_of(problem.layout))},
                      {"causal", problem.causal ? "1" : "0"},
                      {"softmax_scale", fmt::format("{}", problem.softmax_scale)}};
  for (std::string const& name : wanted) {
    if (name == "o") results.add("o", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), result.o));
    if (name == "lse") results.add("lse", make_tensor<f32_code>(dtype::f32, problem.row_shape(), result.lse));
  }
  print_or_save(results, output);
  return 0;
}

}  // namespace

void add_gemm(CLI::App& program, int& status) {
  struct options {
    std::string file, unit = "sm90.wgmma.bf16.f32", output, engine_name = "fast";
    int slices = 1;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = program.add_subcommand("gemm", "D = A Bᵀ (+ C) as a tensor core computes it");
  command->add_option("FILE", o->file, "safetensors file with a [M,K] and b [N,K] in BF16, and perhaps c [M,N] in F32")->required();
  command->add_option("--unit", o->unit, "see `stickybit models`")->capture_default_str();
  command->add_option("--split-k", o->slices, "slices of K, each its own chain, added in FP32")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  command->add_option("-o,--output", o->output, "safetensors file to write: d_f32, d_bf16");
  add_engine(*command, o->engine_name);
  command->callback([o, &status] { status = run_gemm(o->file, o->unit, o->slices, o->output, engine_named(o->engine_name)); });
}

void add_attention(CLI::App& program, int& status) {
  struct options {
    attention_options attention;
    std::vector<std::string> tensors{"o", "lse"};
    std::string output;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = program.add_subcommand("attention", "O and LSE as a kernel computes them");
  o->attention.add_to(*command);
  command->add_option("--tensors", o->tensors, "which results, comma between")->delimiter(',')->check(CLI::IsMember({"o", "lse"}));
  command->add_option("-o,--output", o->output, "safetensors file to write");
  command->callback([o, &status] { status = run_attention(o->attention, o->tensors, o->output); });
}

}  // namespace stickybit::cli
