#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include "commands.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/score_matrices.hpp"
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

int run_gemm(tensor_file const& file, machine_unit const& unit, int slices, std::string const& output, engine how) {
  const gemm_bits_operands operands = read_gemm_bits(file, unit);
  terminal_progress bar("gemm");
  const std::vector<std::uint64_t> bits = gemm_bits(unit, operands.problem(), slices, how, bar.report());
  std::vector<f32_code> d(bits.size());
  std::transform(bits.begin(), bits.end(), d.begin(), [](std::uint64_t b) { return f32_code::from_bits(std::uint32_t(b)); });
  tensor_file results(output);
  results.metadata = {{"stickybit", STICKYBIT_VERSION}, {"unit", std::string(unit.name)}, {"split_k", std::to_string(slices)}, {"fix", "none"}};
  results.add("d_f32", make_tensor<f32_code>(dtype::f32, {operands.m, operands.n}, d));
  const bool bf16 = unit.input == format::bf16 || (traits_of(unit.input).width_bits <= 8 && unit.output == format::f32);
  if (bf16) results.add("d_bf16", make_tensor<bf16_code>(dtype::bf16, {operands.m, operands.n}, to_bf16(d)));
  print_or_save(results, output);
  return 0;
}

struct attention_request {
  attention_options attention;
  std::vector<std::string> tensors;  ///< empty: o, lse, and with backward every gradient
  bool backward = false;
  std::string output;
};

constexpr std::array forward_tensors{"o", "lse"};
constexpr std::array gradient_tensors{"dq", "dk", "dv", "delta", "lse_log2"};

bool is_one_of(auto const& names, std::string const& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

/// The tensors to write, in order.  @throws std::invalid_argument where one needs the backward pass and it was not asked for
std::vector<std::string> wanted_tensors(attention_request const& r) {
  std::vector<std::string> wanted = r.tensors;
  if (wanted.empty()) {
    wanted.assign(forward_tensors.begin(), forward_tensors.end());
    if (r.backward) wanted.insert(wanted.end(), gradient_tensors.begin(), gradient_tensors.end());
  }
  for (std::string const& name : wanted)
    if (!r.backward && !is_one_of(forward_tensors, name)) throw std::invalid_argument(fmt::format("--tensors {}: comes from the backward pass; expected --backward", name));
  return wanted;
}

void add_gradient(tensor_file& results, std::string const& name, attention_problem const& p, backward_result const& g) {
  if (name == "dq") results.add(name, make_tensor<bf16_code>(dtype::bf16, p.output_shape(), g.dq));
  if (name == "dk") results.add(name, make_tensor<bf16_code>(dtype::bf16, p.key_shape(), g.dk));
  if (name == "dv") results.add(name, make_tensor<bf16_code>(dtype::bf16, p.key_shape(), g.dv));
  if (name == "delta") results.add(name, make_tensor<f32_code>(dtype::f32, p.row_shape(), g.delta));
  if (name == "lse_log2") results.add(name, make_tensor<f32_code>(dtype::f32, p.row_shape(), g.lse_log2));
}

int run_attention(attention_request const& request) {
  attention_options const& options = request.attention;
  const std::vector<std::string> wanted = wanted_tensors(request);
  const tensor_file file = tensor_file::load(options.file);
  const attention_problem problem = read_problem(file, options.overrides());
  if (request.backward) static_cast<void>(file.require("do", dtype::bf16, problem.output_shape()));
  const attention_schedule schedule = options.chosen_schedule();
  const engine how = engine_named(options.engine_name);
  score_matrices scores(problem, wanted);
  const auto with_bar = [](const char* what, auto&& work) {
    terminal_progress bar(what);
    return work(bar.report());
  };
  const forward_result result = with_bar("attention", [&](progress const& report) { return attention_forward(schedule, problem, how, report); });
  backward_result gradients;
  if (request.backward)
    gradients = with_bar("backward", [&](progress const& report) {
      return attention_backward(schedule, problem, result, {.how = how, .report = report, .scores = scores.observer(), .dq_parts = {}, .dq_order = {}});
    });
  tensor_file results(request.output);
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
    add_gradient(results, name, problem, gradients);
    if (std::optional<tensor> matrix = scores.take(name, schedule.backward_in_fp32)) results.add(name, std::move(*matrix));
  }
  print_or_save(results, request.output);
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
  command->add_option("FILE", o->file, "safetensors file with a [M,K] and b [N,K] in what the unit takes, or in F32 where that is exact, and perhaps c [M,N] in F32; "
                  "for a unit with scales also scale_a [M,K/s] and scale_b [N,K/s]")->required();
  command->add_option("--unit", o->unit, "see `stickybit models`")->capture_default_str();
  command->add_option("--split-k", o->slices, "slices of K, each its own chain, added in FP32")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  command->add_option("-o,--output", o->output, "safetensors file to write: d_f32, and for units that take BF16 or at most 8 bits d_bf16");
  add_engine(*command, o->engine_name);
  command->callback([o, &status] {
    machine_unit const& unit = unit_named(o->unit);
    status = run_gemm(tensor_file::load(o->file), unit, o->slices, o->output, engine_named(o->engine_name));
  });
}

void add_attention(CLI::App& program, int& status) {
  auto r = std::make_shared<attention_request>();
  CLI::App* command = program.add_subcommand("attention", "O and LSE, and with --backward the gradients, as a kernel computes them");
  r->attention.add_to(*command);
  command->add_flag("--backward", r->backward, "the gradients too, from the tensor 'do' of the file: dq, dk, dv, delta, lse_log2");
  command
      ->add_option("--tensors", r->tensors,
                   "which results, comma between (default: o,lse, with --backward also dq,dk,dv,delta,lse_log2); with --backward also the matrices "
                   "s,p,dp,ds [.., h, s, s_k]: at masked keys s is -inf, p and ds are 0; dp is 0 where the kernel does not compute it")
      ->delimiter(',')
      ->check(CLI::IsMember({"o", "lse", "dq", "dk", "dv", "delta", "lse_log2", "s", "p", "dp", "ds"}));
  command->add_option("-o,--output", r->output, "safetensors file to write");
  command->callback([r, &status] { status = run_attention(*r); });
}

}  // namespace stickybit::cli
