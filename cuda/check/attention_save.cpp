#include "../support/safetensors.hpp"
#include "attention_check.hpp"
#include "attention_origin.hpp"

namespace stickybit::gpu {

void save_call(std::string const& path, attention_case const& c, attention_problem const& problem, attention_schedule const& schedule, emulated_call const& emulated, call_results const& results) {
  std::string producer(schedule.name);
  std::ranges::replace(producer, '-', '_');
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
  file.metadata(producer + ".unit", std::string(schedule.unit));
  if (c.fix != "none") file.metadata(producer + ".fix", c.fix);
  if (c.backward) file.metadata(producer + ".deterministic", c.deterministic ? "1" : "0");

  const auto size = [](std::int64_t x) { return std::size_t(x); };
  const std::vector<std::size_t> queries{size(c.batch), size(c.queries), size(c.heads), size(c.head_dim)}, keys{size(c.batch), size(c.keys), size(c.key_heads), size(c.head_dim)},
      rows{size(c.batch), size(c.heads), size(c.queries)};
  const auto put = [&](std::string const& name, std::vector<std::size_t> const& shape, std::vector<bf16_code> const& codes) {
    if (!codes.empty()) file.tensor<bf16_code>(name, "BF16", shape, codes);
  };
  put("q", queries, problem.q), put("k", keys, problem.k), put("v", keys, problem.v), put("do", queries, problem.d_o);
  // A backward call's own inputs are the forward kernel's results: they are what the emulator gives.
  put(producer + ".o", queries, c.backward ? emulated.forward.o : results.o);
  put(producer + ".o_low", queries, c.backward ? emulated.o_low : results.o_low);
  file.tensor<f32_code>(producer + ".lse", "F32", rows, c.backward ? emulated.forward.lse : results.lse);
  put(producer + ".dv", keys, results.dv), put(producer + ".dk", keys, results.dk);
  if (c.deterministic) put(producer + ".dq", queries, results.dq);
  file.write(path);
}

}  // namespace stickybit::gpu
