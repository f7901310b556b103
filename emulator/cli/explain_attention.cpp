#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "explain.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/explain/figures.hpp"

namespace stickybit::cli {
namespace {

struct attention_explanation {
  attention_options attention;
  telling_options telling;
  std::string tensor = "o";
  std::vector<std::string> at, diff;
};

bool is_of_row(std::string const& tensor) { return tensor == "lse" || tensor == "delta" || tensor == "lse_log2"; }

element_place place_from(attention_explanation const& o) {
  const std::size_t least = is_of_row(o.tensor) ? 2 : 3;
  if (o.at.size() < least || o.at.size() > least + 1)
    throw std::invalid_argument(fmt::format("--at: expected [BATCH,]HEAD,{}, found {} numbers",
                                            least == 2 ? "ROW" : o.tensor == "dk" || o.tensor == "dv" ? "KEY,COL" : o.tensor == "o" || o.tensor == "dq" ? "ROW,COL" : "ROW,KEY", o.at.size()));
  std::vector<std::int64_t> at;
  for (std::string const& text : o.at) at.push_back(parse_index(text));
  if (at.size() == least) at.insert(at.begin(), 0);
  if (least == 2) at.push_back(0);
  return {at[0], at[1], at[2], at[3]};
}

/// Errors of the element's head, where the tensor is a matrix of BF16.
std::optional<error_map> map_of(told_element const& e, forward_result forward) {
  if (!has_error_map(e.tensor)) return std::nullopt;
  if (forward.o.empty()) forward = attention_forward(e.schedule, e.problem);
  if (e.tensor == "o") return map_errors(e.schedule, e.problem, e.tensor, forward.o, e.at.batch, e.at.head);
  const backward_result g = attention_backward(e.schedule, e.problem, forward);
  return map_errors(e.schedule, e.problem, e.tensor, e.tensor == "dq" ? g.dq : e.tensor == "dk" ? g.dk : g.dv, e.at.batch, e.at.head);
}

/// Of O; the gradients' takes longer, and `bias --html` has it.
std::optional<tensor_attribution> attribution_of(told_element const& e) {
  if (e.tensor != "o") return std::nullopt;
  try {
    const output_bias bias = bias_of_output(e.schedule, e.problem);
    terminal_progress bar("attribution");
    return by_name(attribute_output(e.schedule, e.problem, bias.o, engine::fast, bar.report()));
  } catch (unsupported_call const&) {
    return std::nullopt;
  }
}

std::optional<figure::scene> picture_of(told_element const& e, forward_result const& forward, std::string const& name) {
  if (name == "map") {
    const std::optional<error_map> map = map_of(e, forward);
    return map ? std::optional(map_picture(*map, e.tensor, e.at.head)) : std::nullopt;
  }
  if (name == "attribution") {
    const std::optional<tensor_attribution> attribution = attribution_of(e);
    return attribution ? std::optional(attribution_picture(*attribution, "O")) : std::nullopt;
  }
  return picture_named(e.steps, name.empty() ? "shares" : name, rounding_of, e.tensor);
}

void draw(attention_explanation const& o, told_element const& e, forward_result const& forward) {
  const auto page = [&] {
    const std::string of = fmt::format("{} ({} x {} heads, {} queries, {} keys, d = {}{}), schedule {}, unit {}, fix {}", std::filesystem::path(o.attention.file).filename().string(), e.problem.batch, e.problem.heads,
                                       e.problem.queries, e.problem.keys, e.problem.head_dim, e.problem.causal ? ", causal" : "", e.schedule.name, e.schedule.unit, e.fix);
    return element_page(e, {.map = map_of(e, forward), .attribution = attribution_of(e), .footer = made_by(of)});
  };
  o.telling.pictures.write({o.attention.file}, page, [&](std::string const& name) { return picture_of(e, forward, name); });
}

void explain_element(attention_explanation const& o, attention_problem const& problem) {
  if (o.attention.schedule.empty()) throw std::invalid_argument("--schedule is required (or --diff A B)");
  if (o.at.empty()) throw std::invalid_argument("--at is required");
  const attention_schedule schedule = o.attention.chosen_schedule();
  const forward_result forward = is_forward_tensor(o.tensor) ? forward_result{} : attention_forward(schedule, problem);
  const element_place at = place_from(o);
  const account steps = account_of(schedule, problem, o.tensor, at, forward);
  const told_element element{schedule, problem, o.tensor, at, steps, o.attention.fix};
  draw(o, element, forward);
  fmt::print("{}", tell(element, o.telling.chosen_level(), o.telling.chosen_style()));
}

/// @returns whether the two sides differ
bool explain_difference(attention_explanation const& o, tensor_file const& file, attention_problem const& problem, bool gradients) {
  if (o.telling.pictures.wanted()) throw std::invalid_argument("--html, --svg and --tex draw one account: expected --schedule and --at without --diff");
  const call_side a = make_side(o.diff[0], file, problem, gradients), b = make_side(o.diff[1], file, problem, gradients);
  const call_difference d = compare_sides(a, b);
  std::string tensor = o.tensor;
  element_place at;
  if (!o.at.empty()) {
    at = place_from(o);
  } else if (!d.earliest.empty()) {
    tensor = d.earliest;
    for (tensor_comparison const& t : d.tensors)
      if (t.tensor == tensor) at = place_of(problem, tensor, t.first);
  }
  const bool all_equal = o.at.empty() && d.earliest.empty();
  const std::string words = all_equal ? fmt::format("{} and {} give the same codes everywhere; --at HEAD,ROW,COL compares the steps to one of them\n", a.name, b.name)
                                      : tell_difference(a, b, problem, tensor, at);
  for (tensor_comparison const& t : d.tensors) fmt::print("{}: {} mismatches of {}\n", t.tensor, t.mismatches, t.total);
  fmt::print("\n{}", words);
  return !d.earliest.empty();
}

/// `explain --diff A B FILE`: a whole call, gradients too where there are any.
void add_whole_difference(CLI::App& explain, int& status) {
  auto o = std::make_shared<attention_explanation>();
  explain.add_option("FILE", o->attention.file, "with --diff: safetensors file with q, k, v in BF16");
  explain.add_option("--diff", o->diff, "two of SCHEDULE[@UNIT][+FIX] and capture:PRODUCER: the first step at which they part on FILE")->expected(2)->allow_extra_args(false);
  explain.callback([o, &explain, &status] {
    if (!explain.get_subcommands().empty()) return;
    if (o->diff.empty() || o->attention.file.empty()) throw std::invalid_argument("explain: expected what to explain (add, fma, cast, exp2, dot, gemm, softmax, attention, grad), or --diff A B FILE");
    const tensor_file file = tensor_file::load(o->attention.file);
    const attention_problem problem = read_problem(file, {});
    status = explain_difference(*o, file, problem, true) ? 1 : 0;
  });
}

void add_command(CLI::App& explain, int& status, const char* name, const char* what, const char* tensor, std::vector<std::string> const& tensors) {
  auto o = std::make_shared<attention_explanation>();
  o->tensor = tensor;
  CLI::App* command = explain.add_subcommand(name, what);
  o->attention.add_to(*command);
  command->get_option("--schedule")->required(false);
  command->add_option("--tensor", o->tensor, "which result")->check(CLI::IsMember(tensors))->capture_default_str();
  command->add_option("--at", o->at, "[BATCH,]HEAD,ROW,COL; for dk and dv key head, key, column; for s, p, dp, ds head, row, key; for lse, delta, lse_log2 head, row")->delimiter(',')->expected(2, 4);
  command->add_option("--diff", o->diff, "two of SCHEDULE[@UNIT][+FIX] and capture:PRODUCER: where they part; without --at at the first code of the earliest tensor that differs")->expected(2)->allow_extra_args(false);
  o->telling.add_to(*command, {"shares", "rounding", "error", "row", "block", "map", "attribution"});
  const bool gradients = std::string_view(tensor) != "o";
  command->callback([o, gradients, &status] {
    const tensor_file file = tensor_file::load(o->attention.file);
    const attention_problem problem = read_problem(file, o->attention.overrides());
    status = 0;
    if (o->diff.empty()) explain_element(*o, problem);
    else status = explain_difference(*o, file, problem, gradients || !is_forward_tensor(o->tensor)) ? 1 : 0;
  });
}

}  // namespace

void add_explain_attention(CLI::App& explain, int& status) {
  std::vector<std::string> all(explained_tensors().begin(), explained_tensors().end()), gradients;
  for (std::string const& t : all)
    if (!is_forward_tensor(t)) gradients.push_back(t);
  add_whole_difference(explain, status);
  add_command(explain, status, "attention", "one element of an attention call, forward or backward", "o", all);
  add_command(explain, status, "grad", "one element of the backward pass", "dq", gradients);
}

}  // namespace stickybit::cli
