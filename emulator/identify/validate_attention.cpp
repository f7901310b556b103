#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "stickybit/attention/forward.hpp"
#include "stickybit/tensor_file/shape.hpp"
#include "validators.hpp"

namespace stickybit::detail {
namespace {

constexpr std::array inputs{"q", "k", "v", "do"};
/// Results in the order in which a kernel computes them.
constexpr std::array results{"lse", "o", "lse_log2", "delta", "dv", "dk", "dq"};

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

emulation emulate(attention_schedule const& schedule, attention_problem const& problem, validate_options const& options) {
  emulation e;
  try {
    const forward_result r = attention_forward(schedule, problem, options.how, options.report);
    e.tensors.emplace("o", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), r.o));
    e.tensors.emplace("lse", make_tensor<f32_code>(dtype::f32, problem.row_shape(), r.lse));
  } catch (unsupported_call const& error) {
    e.unsupported = error.what();
  }
  return e;
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
      known = by_producer.emplace(producer, emulate(*schedule, problem, options)).first;
    }
    const auto emulated = known->second.tensors.find(result);
    if (emulated == known->second.tensors.end()) {
      verdicts.push_back(skipped(t.name, known->second.unsupported.empty() ? fmt::format("{} is not emulated", result) : known->second.unsupported));
      continue;
    }
    tensor const& captured = file.require(t.name, emulated->second.type, emulated->second.shape);
    verdicts.push_back(judge(t.name, captured, emulated->second, options.nan_bits));
    verdicts.back().place = place_of(result);
  }
  return verdicts;
}

}  // namespace stickybit::detail
