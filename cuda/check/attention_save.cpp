#include <algorithm>
#include <array>
#include <cstdio>

#include "attention_check.hpp"
#include "attention_origin.hpp"

namespace stickybit::gpu {
namespace {

std::vector<std::size_t> query_shape(attention_case const& c) { return {std::size_t(c.batch), std::size_t(c.queries), std::size_t(c.heads), std::size_t(c.head_dim)}; }
std::vector<std::size_t> key_shape(attention_case const& c) { return {std::size_t(c.batch), std::size_t(c.keys), std::size_t(c.key_heads), std::size_t(c.head_dim)}; }

void put(safetensors_writer& file, std::string const& name, std::vector<std::size_t> const& shape, std::vector<bf16_code> const& codes) {
  if (!codes.empty()) file.tensor<bf16_code>(name, "BF16", shape, codes);
}

}  // namespace

safetensors_writer call_file(attention_case const& c, attention_problem const& problem) {
  std::array<char, 32> scale{};
  std::snprintf(scale.data(), scale.size(), "%.9g", c.scale);
  safetensors_writer file;
  for (auto const& [name, value] : origin_of_results()) file.metadata(name, value);
  file.metadata("seed", std::to_string(c.seed));
  file.metadata("case", std::to_string(c.index));
  file.metadata("regime", c.regime);
  file.metadata("layout", "b,s,h,d");
  file.metadata("causal", c.causal ? "1" : "0");
  file.metadata("softmax_scale", scale.data());
  put(file, "q", query_shape(c), problem.q), put(file, "k", key_shape(c), problem.k), put(file, "v", key_shape(c), problem.v), put(file, "do", query_shape(c), problem.d_o);
  return file;
}

void add_results(safetensors_writer& file, attention_case const& c, attention_schedule const& schedule, call_results const& r) {
  std::string producer(schedule.name);
  std::ranges::replace(producer, '-', '_');
  file.metadata(producer + ".unit", std::string(schedule.unit));
  if (c.fix != "none") file.metadata(producer + ".fix", c.fix);
  if (!r.dv.empty()) file.metadata(producer + ".deterministic", c.deterministic ? "1" : "0");
  put(file, producer + ".o", query_shape(c), r.o), put(file, producer + ".o_low", query_shape(c), r.o_low);
  file.tensor<f32_code>(producer + ".lse", "F32", {std::size_t(c.batch), std::size_t(c.heads), std::size_t(c.queries)}, r.lse);
  put(file, producer + ".dv", key_shape(c), r.dv), put(file, producer + ".dk", key_shape(c), r.dk);
  if (c.deterministic) put(file, producer + ".dq", query_shape(c), r.dq);
}

void save_call(std::string const& path, attention_case const& c, attention_problem const& problem, attention_schedule const& schedule, emulated_call const& emulated, call_results const& results) {
  call_results all = results;
  // A backward call's own inputs are the forward kernel's results: they are what the emulator gives.
  if (c.backward) all.o = emulated.forward.o, all.o_low = emulated.o_low, all.lse = emulated.forward.lse;
  safetensors_writer file = call_file(c, problem);
  add_results(file, c, schedule, all);
  file.write(path);
}

}  // namespace stickybit::gpu
