#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "stickybit/attention/backward.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/shape.hpp"
#include "validators.hpp"

namespace stickybit::detail {
namespace {

constexpr std::array inputs{"q", "k", "v", "do"};
/// Results in the order in which a kernel computes them.
constexpr std::array results{"lse", "o", "o_low", "lse_log2", "delta", "dv", "dk", "dq"};

int place_of(std::string_view result) { return int(std::find(results.begin(), results.end(), result) - results.begin()); }

/// A schedule's name in a tensor's name has '_' for '-'.
attention_schedule const* schedule_of_producer(std::string_view producer) {
  for (attention_schedule const& schedule : all_attention_schedules()) {
    std::string name(schedule.name);
    std::replace(name.begin(), name.end(), '-', '_');
    if (name == producer) return &schedule;
  }
  return nullptr;
}

/// What one schedule computes for the file's call; or why it cannot.
struct emulation {
  std::map<std::string, tensor, std::less<>> tensors;
  std::string unsupported;
};

/// The schedule with what the file says of this producer: `<producer>.unit`, `<producer>.fix`.
attention_schedule as_recorded(attention_schedule schedule, tensor_file const& file, std::string const& producer) {
  const auto said = [&](char const* what) {
    const auto found = file.metadata.find(producer + what);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  try {
    if (const std::string unit = said(".unit"); !unit.empty()) schedule.unit = unit_named(unit).name;
    if (const std::string fix = said(".fix"); !fix.empty()) schedule = with_fixes(schedule, fix);
  } catch (std::invalid_argument const& error) {
    throw file_error(file.name(), fmt::format("metadata {0}.unit and {0}.fix that there are", producer), error.what());
  }
  return schedule;
}

/// [.., h, s] to [.., h, padded]: what the kernel writes into the rows of its last tile that are not there.
tensor padded(attention_problem const& p, std::vector<f32_code> const& rows, std::int64_t to, f32_code padding) {
  std::vector<f32_code> wide(std::size_t(p.batch * p.heads * to), padding);
  for (std::int64_t i = 0; i < p.batch * p.heads; ++i) std::copy_n(rows.begin() + i * p.queries, p.queries, wide.begin() + i * to);
  std::vector<std::int64_t> shape = p.row_shape();
  shape.back() = to;
  return make_tensor<f32_code>(dtype::f32, shape, wide);
}

emulation emulate(attention_schedule const& schedule, attention_problem const& problem, bool gradients, validate_options const& options) {
  emulation e;
  try {
    const forward_result r = attention_forward(schedule, problem, options.how, options.report);
    e.tensors.emplace("o", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), r.o));
    e.tensors.emplace("lse", make_tensor<f32_code>(dtype::f32, problem.row_shape(), r.lse));
    if (schedule.backward.delta_from == delta_source::high_and_low) e.tensors.emplace("o_low", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), low_outputs(schedule, r)));
    if (!gradients) return e;
    const backward_result g = attention_backward(schedule, problem, r, {.how = options.how, .report = options.report, .scores = {}, .dq_parts = {}, .dq_order = {}});
    e.tensors.emplace("dq", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), g.dq));
    e.tensors.emplace("dk", make_tensor<bf16_code>(dtype::bf16, problem.key_shape(), g.dk));
    e.tensors.emplace("dv", make_tensor<bf16_code>(dtype::bf16, problem.key_shape(), g.dv));
    const std::int64_t rows = padded_rows(schedule, problem);
    e.tensors.emplace("delta", padded(problem, g.delta, rows, f32_code::zero()));
    e.tensors.emplace("lse_log2", padded(problem, g.lse_log2, rows, f32_code::infinity()));
  } catch (unsupported_call const& error) {
    e.unsupported = error.what();
  }
  return e;
}

bool is_gradient(std::string_view result) { return place_of(result) >= place_of("lse_log2") && place_of(result) < int(results.size()); }

/// Does the file hold gradients of this producer, and what they come from?
bool has_gradients(tensor_file const& file, std::string const& producer) {
  return file.find("do") != nullptr && std::any_of(results.begin(), results.end(), [&](std::string_view result) {
           return is_gradient(result) && file.find(fmt::format("{}.{}", producer, result)) != nullptr;
         });
}

}  // namespace

std::vector<verdict> validate_attention(tensor_file const& file, validate_options const& options) {
  attention_problem problem = read_problem(file, options.problem);
  std::map<std::string, emulation, std::less<>> by_producer;
  std::vector<verdict> verdicts;
  for (named_tensor const& t : file.tensors()) {
    if (std::find(inputs.begin(), inputs.end(), t.name) != inputs.end()) continue;
    const std::size_t dot = t.name.find('.');
    const std::string producer = dot == t.name.npos ? std::string() : t.name.substr(0, dot), result = dot == t.name.npos ? t.name : t.name.substr(dot + 1);
    attention_schedule const* schedule = schedule_of_producer(producer);
    if (schedule == nullptr) {
      verdicts.push_back(skipped(t.name, dot == t.name.npos ? "no producer in its name" : fmt::format("no schedule '{}'", producer)));
      continue;
    }
    auto known = by_producer.find(producer);
    if (known == by_producer.end()) {
      problem.call_heads = whole_number(file, producer + ".heads", problem.heads);
      known = by_producer.emplace(producer, emulate(as_recorded(*schedule, file, producer), problem, has_gradients(file, producer), options)).first;
    }
    const auto emulated = known->second.tensors.find(result);
    if (emulated == known->second.tensors.end()) {
      verdicts.push_back(skipped(t.name, known->second.unsupported.empty() ? fmt::format("{} is not emulated", result) : known->second.unsupported));
      continue;
    }
    // How far these two are padded depends on the tile: another mask or head dimension, another shape.
    if ((result == "delta" || result == "lse_log2") && t.value.shape != emulated->second.shape) {
      verdicts.push_back(skipped(t.name, fmt::format("padded to {}, expected {}", shape_text(t.value.shape), shape_text(emulated->second.shape))));
      continue;
    }
    tensor const& captured = file.require(t.name, emulated->second.type, emulated->second.shape);
    verdicts.push_back(judge(t.name, captured, emulated->second, options.nan_bits));
    verdicts.back().place = place_of(result);
  }
  return verdicts;
}

}  // namespace stickybit::detail
