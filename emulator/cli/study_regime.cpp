#include <fmt/format.h>

#include <memory>

#include "stickybit/study/regimes.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

struct regime_request {
  std::string name, path;
  std::int64_t queries = 0, heads = 0;
  std::uint64_t seed = 1;
};

/// The generated call as a capture has it: q, k, v and do, layout s,h,d.
void write_regime(regime_request const& r) {
  named_regime regime = regime_named(r.name);
  if (r.queries > 0) regime.queries = r.queries;
  if (r.heads > 0) regime.heads = regime.key_heads = r.heads;
  const attention_problem p = generate(regime, r.seed);
  tensor_file file(r.path);
  file.metadata = {{"stickybit", STICKYBIT_VERSION},
                   {"layout", std::string(name_of(p.layout))},
                   {"causal", p.causal ? "1" : "0"},
                   {"softmax_scale", fmt::format("{}", p.softmax_scale)},
                   {"regime", r.name},
                   {"seed", std::to_string(r.seed)}};
  file.add("q", make_tensor<bf16_code>(dtype::bf16, p.query_shape(), p.q));
  file.add("k", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), p.k));
  file.add("v", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), p.v));
  file.add("do", make_tensor<bf16_code>(dtype::bf16, p.query_shape(), p.d_o));
  file.save(r.path);
}

}  // namespace

void add_study_regime(CLI::App& study, int& status) {
  auto r = std::make_shared<regime_request>();
  CLI::App* command = study.add_subcommand("regime", "write a generated call to a file, for `stickybit bias` and the rest");
  command->add_option("NAME", r->name, "of the regime, as in the tables of `stickybit study fixes`")->required();
  command->add_option("-o,--output", r->path, "safetensors file to write")->required();
  command->add_option("--seed", r->seed, "of the call")->capture_default_str();
  command->add_option("--queries", r->queries, "rows, instead of the regime's own")->check(CLI::PositiveNumber);
  command->add_option("--heads", r->heads, "heads, instead of the regime's own")->check(CLI::PositiveNumber);
  command->callback([r, &status] {
    write_regime(*r);
    status = 0;
  });
}

}  // namespace stickybit::cli
