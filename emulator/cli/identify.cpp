#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "commands.hpp"
#include "identify_commands.hpp"
#include "stickybit/identify/attention_search.hpp"
#include "stickybit/identify/backward_search.hpp"

namespace stickybit::cli {
namespace {

struct search_request {
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

/// The chosen value of each axis, and those that fit as well.
void print_point(std::vector<schedule_axis> const& axes, schedule_point const& point, std::vector<std::vector<std::size_t>> const& also_fits) {
  for (std::size_t i = 0; i < point.size(); ++i) {
    std::string also;
    if (!also_fits.empty())
      for (std::size_t value : also_fits[i]) also += fmt::format("{}{}", also.empty() ? "" : " | ", axes[i].values[value]);
    fmt::print("    {:<18} {}{}\n", axes[i].name, axes[i].values[point[i]], also.empty() ? "" : fmt::format("   (this call cannot tell it from: {})", also));
  }
}

void print_search(schedule_space const& space, search_result const& r) {
  fmt::print("  search of {:.3g} schedules, {} tried: {} mismatches of {}{}\n", space.size(), r.schedules_tried, r.mismatches, r.total,
             r.first.empty() ? "" : fmt::format(", first at {}", r.first));
  print_point(space.axes(), r.point, r.also_fits);
}

/// "dv 0 of 8192, dk 3 of 8192, dq 0 of 8192, first at dk[0, 1, 0, 7]".
std::string text_of(gradient_fits const& fits) {
  std::string text, first;
  for (gradient_stage stage : gradient_stages) {
    gradient_fit const& fit = fits[std::size_t(stage)];
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", name_of(stage), fit.mismatches, fit.total);
    if (first.empty() && !fit.first.empty()) first = fmt::format(", first at {}", fit.first);
  }
  return text + first;
}

/// Prints what fits one producer's gradients, from its own O and LSE; false where nothing does, true where the file holds none.
bool identify_backward(tensor_file const& file, attention_problem const& problem, std::string const& prefix, captured_forward const& forward, bool search) {
  if (problem.d_o.empty() || forward.lse.empty()) return true;
  for (gradient_stage stage : gradient_stages)
    if (file.find(prefix + std::string(name_of(stage))) == nullptr) return true;
  const auto gradient = [&](const char* name, std::vector<std::int64_t> const& shape) { return file.require(prefix + name, dtype::bf16, shape).elements<bf16_code>(); };
  const captured_gradients captured{gradient("dq", problem.query_shape()), gradient("dk", problem.key_shape()), gradient("dv", problem.key_shape())};
  const forward_result from{forward.o, forward.lse, {}};

  fmt::print("{0}dv, {0}dk, {0}dq, from {0}o and {0}lse:\n", prefix);
  std::vector<named_gradient_fit> fits = fit_named_backward(problem, from, captured);
  std::stable_sort(fits.begin(), fits.end(), [](auto const& a, auto const& b) { return mismatches_of(a.fits) < mismatches_of(b.fits); });
  for (named_gradient_fit const& fit : fits) fmt::print("  {:<18} mismatches: {}\n", fit.schedule, text_of(fit.fits));
  const bool found = !fits.empty() && mismatches_of(fits.front().fits) == 0;
  if (!search) return found;
  const backward_space space(problem);
  const backward_search_result result = [&] {
    terminal_progress bar("search");
    return search_backward(space, problem, from, captured, bar.report());
  }();
  fmt::print("  search of {:.3g} schedules, {} tried: mismatches: {}\n", space.size(), result.schedules_tried, text_of(result.fits));
  print_point(space.axes(), result.point, result.also_fits);
  return found || mismatches_of(result.fits) == 0;
}

/// Prints what fits one producer's O and LSE, and its gradients where the file holds them; false where nothing does.
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
  if (search) {
    const schedule_space space(problem);
    const search_result result = [&] {
      terminal_progress bar("search");
      return search_attention(space, problem, captured, bar.report());
    }();
    print_search(space, result);
    found |= result.mismatches == 0;
  }
  return identify_backward(file, problem, prefix, captured, search) && found;
}

int run_identify(search_request const& o) {
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
  CLI::App* identify = program.add_subcommand("identify", "which model fits a capture, or a unit that can be asked");
  identify->require_subcommand(1);
  add_identify_gemm(*identify, status);
  add_identify_unit(*identify, status);
  auto o = std::make_shared<search_request>();
  CLI::App* command = identify->add_subcommand("attention", "which schedule gives the captured O and LSE, and the gradients where they are in the file: the named ones, then a blind search");
  command->add_option("FILE", o->attention.file, "safetensors file with q, k, v, and <producer>.o, <producer>.lse; for gradients do, <producer>.dq, .dk, .dv")->required();
  command->add_option("--producer", o->producer, "only this one");
  command->add_flag("--no-search", o->no_search, "only the named schedules");
  o->attention.add_overrides(*command);
  command->callback([o, &status] { status = run_identify(*o); });
}

}  // namespace stickybit::cli
