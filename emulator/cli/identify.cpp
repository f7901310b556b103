#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "commands.hpp"
#include "stickybit/identify/attention_search.hpp"

namespace stickybit::cli {
namespace {

struct options {
  attention_options attention;  // overrides only
  std::string producer;
  bool no_search = false;
};

/// Producers of an O in the file: "" for a tensor named o.
std::vector<std::string> producers_in(tensor_file const& file) {
  std::vector<std::string> producers;
  for (named_tensor const& t : file.tensors()) {
    if (t.name == "o") producers.emplace_back();
    else if (t.name.ends_with(".o")) producers.push_back(t.name.substr(0, t.name.size() - 2));
  }
  return producers;
}

void print_search(schedule_space const& space, search_result const& r) {
  fmt::print("  search of {:.3g} schedules, {} tried: {} mismatches of {}{}\n", space.size(), r.schedules_tried, r.mismatches, r.total,
             r.first.empty() ? "" : fmt::format(", first at {}", r.first));
  for (std::size_t i = 0; i < r.point.size(); ++i) {
    schedule_axis const& axis = space.axes()[i];
    std::string also;
    if (!r.also_fits.empty())
      for (std::size_t value : r.also_fits[i]) also += fmt::format("{}{}", also.empty() ? "" : " | ", axis.values[value]);
    fmt::print("    {:<18} {}{}\n", axis.name, axis.values[r.point[i]], also.empty() ? "" : fmt::format("   (this call cannot tell it from: {})", also));
  }
}

/// Prints what fits one producer's O and LSE; false where nothing does.
bool identify_one(tensor_file const& file, attention_problem problem, std::string const& producer, bool search) {
  const std::string prefix = producer.empty() ? "" : producer + ".";
  captured_forward captured;
  captured.o = file.require(prefix + "o", dtype::bf16, problem.output_shape()).elements<bf16_code>();
  if (file.find(prefix + "lse") != nullptr) captured.lse = file.require(prefix + "lse", dtype::f32, problem.row_shape()).elements<f32_code>();
  if (problem.call_heads == 0) problem.call_heads = whole_number(file, prefix + "heads", problem.heads);

  fmt::print("{}:\n", prefix + "o");
  std::vector<named_fit> fits = fit_named_schedules(problem, captured);
  std::stable_sort(fits.begin(), fits.end(), [](named_fit const& a, named_fit const& b) { return (a.total == 0) != (b.total == 0) ? b.total == 0 : a.mismatches < b.mismatches; });
  bool found = false;
  for (named_fit const& fit : fits) {
    if (fit.total == 0) continue;
    found |= fit.mismatches == 0;
    fmt::print("  {:<18} {} mismatches of {}{}\n", fit.schedule, fit.mismatches, fit.total, fit.first.empty() ? "" : fmt::format(", first at {}", fit.first));
  }
  if (!search) return found;
  const schedule_space space(problem);
  const search_result result = [&] {
    terminal_progress bar("search");
    return search_attention(space, problem, captured, bar.report());
  }();
  print_search(space, result);
  return found || result.mismatches == 0;
}

int run_identify(options const& o) {
  const tensor_file file = tensor_file::load(o.attention.file);
  const attention_problem problem = read_problem(file, o.attention.overrides());
  std::vector<std::string> producers = producers_in(file);
  if (!o.producer.empty()) producers = {o.producer};
  if (producers.empty()) throw file_error(file.name(), "a captured O, named o or <producer>.o", "none");
  bool all = true;
  for (std::string const& producer : producers) all &= identify_one(file, problem, producer, !o.no_search);
  return all ? 0 : 1;
}

}  // namespace

void add_identify(CLI::App& program, int& status) {
  CLI::App* identify = program.add_subcommand("identify", "which model fits a capture");
  identify->require_subcommand(1);
  auto o = std::make_shared<options>();
  CLI::App* command = identify->add_subcommand("attention", "which schedule gives the captured O and LSE: the named ones, then a blind search");
  command->add_option("FILE", o->attention.file, "safetensors file with q, k, v, and <producer>.o, <producer>.lse")->required();
  command->add_option("--producer", o->producer, "only this one");
  command->add_flag("--no-search", o->no_search, "only the named schedules");
  o->attention.add_overrides(*command);
  command->callback([o, &status] { status = run_identify(*o); });
}

}  // namespace stickybit::cli
