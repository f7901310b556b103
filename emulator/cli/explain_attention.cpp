#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/explain/output.hpp"

namespace stickybit::cli {

void add_explain_attention(CLI::App& explain) {
  struct options {
    attention_options attention;
    std::string tensor = "o";
    std::vector<std::string> at;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("attention", "one element of an attention call");
  o->attention.add_to(*command);
  command->add_option("--tensor", o->tensor, "which result")->check(CLI::IsMember({"o"}))->capture_default_str();
  command->add_option("--at", o->at, "[BATCH,]HEAD,ROW,COL")->required()->delimiter(',')->expected(3, 4);
  command->callback([o] {
    const attention_problem problem = read_problem(tensor_file::load(o->attention.file), o->attention.overrides());
    std::vector<std::int64_t> at;
    for (std::string const& text : o->at) at.push_back(parse_index(text));
    if (at.size() < 3 || at.size() > 4) throw std::invalid_argument(fmt::format("--at: expected [BATCH,]HEAD,ROW,COL, found {} numbers", at.size()));
    if (at.size() == 3) at.insert(at.begin(), 0);
    fmt::print("{}", explain_output(o->attention.chosen_schedule(), problem, at[0], at[1], at[2], at[3]));
  });
}

}  // namespace stickybit::cli
