#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/explain/difference.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/explain/figures.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/text.hpp"

namespace stickybit::cli {
namespace {

struct softmax_request {
  attention_options attention;
  telling_options telling;
  std::vector<std::string> scores, values, diff;
  std::string tensor;
  std::int64_t head_dim = 64;
};

int explain_softmax(softmax_request const& r) {
  std::vector<f32_code> scores;
  std::vector<bf16_code> values;
  for (std::string const& text : r.scores) scores.push_back(parse_f32(text));
  for (std::string const& text : r.values) values.push_back(parse_bf16(text));
  const double scale = r.attention.softmax_scale.empty() ? 1 / std::sqrt(double(r.head_dim)) : parse_scale(r.attention.softmax_scale);
  const attention_problem problem = one_row_problem(scores, values, scale, r.head_dim);
  if (r.tensor == "o" && values.empty()) throw std::invalid_argument("--tensor o: expected --values, a number of V for each score");
  if (!r.diff.empty() && r.telling.pictures.wanted()) throw std::invalid_argument("--html, --svg and --tex draw one account: expected --schedule without --diff");
  const std::string tensor = !r.tensor.empty() ? r.tensor : values.empty() ? "lse" : "o";
  if (!r.diff.empty()) {
    const account a = account_of_softmax(schedule_from(r.diff[0]), problem, scores, tensor), b = account_of_softmax(schedule_from(r.diff[1]), problem, scores, tensor);
    const std::optional<account_difference> d = first_difference(a, b, r.diff[0], r.diff[1]);
    fmt::print("{}", d ? tell(*d) : std::string("Every quantity that both name has the same code in both.\n"));
    return d ? 1 : 0;
  }
  if (r.attention.schedule.empty()) throw std::invalid_argument("--schedule is required (or --diff A B)");
  const attention_schedule schedule = r.attention.chosen_schedule();
  const account steps = account_of_softmax(schedule, problem, scores, tensor);
  const told_element e{schedule, problem, tensor, {}, steps, r.attention.fix};
  r.telling.pictures.write({}, [&] { return element_page(e, {.footer = made_by(fmt::format("{} scores, schedule {}, fix {}", scores.size(), schedule.name, r.attention.fix))}); },
                           [&](std::string const& name) { return picture_named(e.steps, name.empty() ? "shares" : name, rounding_of, tensor); });
  fmt::print("{}", tell(e, r.telling.chosen_level(), r.telling.chosen_style()));
  return 0;
}

}  // namespace

void add_explain_softmax(CLI::App& explain, int& status) {
  auto r = std::make_shared<softmax_request>();
  CLI::App* command = explain.add_subcommand("softmax", "one row of attention from its scores: the weights, their sum, O's element, lse");
  command->add_option("--scores", r->scores, "raw scores q·k in FP32, comma between")->required()->delimiter(',');
  command->add_option("--values", r->values, "a column of V in BF16, one a score")->delimiter(',');
  command->add_option("--tensor", r->tensor, "o or lse (default: o where there are values)")->check(CLI::IsMember({"o", "lse"}));
  command->add_option("--schedule", r->attention.schedule, "the kernel's arithmetic (see `stickybit models`)");
  command->add_option("--unit", r->attention.unit, "tensor-core unit, instead of the schedule's own");
  command->add_option("--fix", r->attention.fix, "changes to the kernel, joined with '+' (see `stickybit models`)")->capture_default_str();
  command->add_option("--softmax-scale", r->attention.softmax_scale, "default: 1/sqrt(head dimension)");
  command->add_option("--head-dim", r->head_dim, "decides the blocks of keys and the scale")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--diff", r->diff, "two of SCHEDULE[@UNIT][+FIX]: where they part")->expected(2)->allow_extra_args(false);
  r->telling.add_to(*command, {"shares", "rounding", "error", "row", "block"});
  command->callback([r, &status] { status = explain_softmax(*r); });
}

}  // namespace stickybit::cli
