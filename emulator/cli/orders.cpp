#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "stickybit/attention/dq_orders.hpp"
#include "stickybit/bias/compare.hpp"

namespace stickybit::cli {
namespace {

struct orders_request {
  attention_options attention;
  std::int64_t tries = 64;
  std::uint64_t seed = 1;
  bool per_element = false;
  std::string against;
};

std::string text_of(bf16_code c) { return code_text(dtype::bf16, c.to_bits()); }

struct captured_dq {
  std::vector<bf16_code> codes;
  std::int64_t call_heads;  ///< of the call that was captured
};

/// The captured dQ that --against names: a tensor of the call's file, or FILE:tensor.
captured_dq read_captured(tensor_file const& file, std::string const& argument, attention_problem const& p) {
  const auto take = [&](tensor_file const& from, std::string const& name) {
    return captured_dq{from.require(name, dtype::bf16, p.output_shape()).elements<bf16_code>(), whole_number(from, name.substr(0, name.find('.')) + ".heads", p.heads)};
  };
  const std::size_t colon = argument.rfind(':');
  if (file.find(argument) != nullptr || colon == argument.npos) return take(file, argument);
  if (colon + 1 == argument.size()) throw std::invalid_argument(fmt::format("--against '{}': expected a tensor after ':'", argument));
  return take(tensor_file::load(argument.substr(0, colon)), argument.substr(colon + 1));
}

void print_spread(dq_spread const& s, attention_problem const& p) {
  fmt::print("dq: {} of {} elements vary", s.varying, s.distinct.size());
  if (s.largest_at) {
    const auto at = std::size_t(*s.largest_at);
    fmt::print("; largest spread {} ulp at {}: {} to {}, {} codes", s.largest_ulps, position_text(p.output_shape(), *s.largest_at), text_of(s.lowest[at]), text_of(s.highest[at]),
               s.distinct[at]);
  }
  std::map<std::int32_t, std::int64_t> by_codes;
  for (std::int32_t n : s.distinct) ++by_codes[n];
  fmt::print("\n  elements by number of codes:");
  for (auto const& [codes, count] : by_codes) fmt::print(" {}: {}", codes, count);
  fmt::print("\n");
}

void print_unexplained(std::string_view what, std::string_view codes, std::optional<unexplained_element> const& e, attention_problem const& p) {
  if (!e) return;
  fmt::print("  first {} at {}: captured {}; {}", what, position_text(p.output_shape(), e->index), text_of(e->captured), codes);
  constexpr std::size_t shown = 32;
  for (std::size_t i = 0; i < std::min(shown, e->reachable.size()); ++i) fmt::print("{} {}", i == 0 ? "" : ",", text_of(e->reachable[i]));
  fmt::print("{}\n", e->reachable.size() > shown ? fmt::format(" and {} more", e->reachable.size() - shown) : "");
}

void print_explanation(dq_explanation const& x, std::string const& name, attention_problem const& p) {
  fmt::print("{}: {} explained, {} impossible, {} not found of {}\n", name, x.explained, x.impossible, x.not_found, x.verdicts.size());
  print_unexplained("impossible", "every order gives one of", x.first_impossible, p);
  print_unexplained("not found", "the orders tried give", x.first_not_found, p);
  if (x.common)
    fmt::print("  one order of the blocks explains {} of {} rows, {} of {} tiles of rows, {} of {} heads\n", x.common->rows_explained, x.common->rows,
               x.common->tiles_explained, x.common->tiles, x.common->heads_explained, x.common->heads);
}

int run_orders(orders_request const& o) {
  const tensor_file file = tensor_file::load(o.attention.file);
  attention_problem problem = read_problem(file, o.attention.overrides());
  const attention_schedule schedule = o.attention.chosen_schedule();
  static_cast<void>(file.require("do", dtype::bf16, problem.output_shape()));
  std::vector<bf16_code> captured;
  if (!o.against.empty()) {
    captured_dq read = read_captured(file, o.against, problem);
    captured = std::move(read.codes);
    if (problem.call_heads == 0) problem.call_heads = read.call_heads;
  }
  dq_order_options how{.tries = o.tries, .seed = o.seed, .draw = o.per_element ? order_draw::each_element : order_draw::whole_call,
                       .how = engine_named(o.attention.engine_name), .report = {}};
  const auto with_bar = [&](const char* what, auto&& work) {
    terminal_progress bar(what);
    how.report = bar.report();
    return work();
  };
  const forward_result forward = with_bar("attention", [&] { return attention_forward(schedule, problem, how.how, how.report); });
  const dq_spread spread = with_bar("orders", [&] { return sample_dq_orders(schedule, problem, forward, how); });
  const std::int64_t blocks = dq_blocks(schedule, problem);
  fmt::print("{}: {} block{} of keys, each makes a part of dQ; {} orders of their additions, {}, seed {}\n", schedule.name, blocks, blocks == 1 ? "" : "s", o.tries,
             o.per_element ? "drawn for each element" : "each for the whole call", o.seed);
  print_spread(spread, problem);
  if (o.against.empty()) return 0;
  const dq_explanation x = with_bar("against", [&] { return explain_dq(schedule, problem, forward, captured, how); });
  print_explanation(x, o.against, problem);
  return x.impossible == 0 && x.not_found == 0 ? 0 : 1;
}

}  // namespace

void add_orders(CLI::App& program, int& status) {
  auto o = std::make_shared<orders_request>();
  CLI::App* command = program.add_subcommand("orders", "what dQ can be when the key blocks' parts are added in any order, as atomic additions are");
  o->attention.add_to(*command);
  command->add_option("--tries", o->tries, "orders drawn")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  command->add_option("--seed", o->seed, "of the draws")->capture_default_str();
  command->add_flag("--per-element", o->per_element, "each element draws its own orders");
  command->add_option("--against", o->against, "a captured dQ, FILE:tensor or a tensor of FILE: does some order explain each element?");
  command->callback([o, &status] { status = run_orders(*o); });
}

}  // namespace stickybit::cli
