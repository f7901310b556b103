#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/study/low_rank.hpp"
#include "study.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

/// A capture as a step; its tokens are the tensor x [s, d_model] (BF16 or FP32) where it has one.
training_step step_of(study_options const& o, std::string const& path, std::int64_t d_model, std::int64_t at, bool& has_tokens) {
  const tensor_file file = tensor_file::load(path);
  training_step s{.problem = read_problem(file, o.overrides.overrides()), .d_model = d_model, .x = {}};
  tensor const* const x = file.find("x");
  has_tokens = x != nullptr;
  if (!has_tokens) {
    s.x = synthetic_tokens(s.problem.batch * s.problem.queries, d_model, o.seed, at);
    return s;
  }
  if (x->rank() < 2) throw file_error(path, "x", "[s, d_model]", fmt::format("rank {}", x->rank()));
  s.d_model = x->shape.back();
  if (x->type == dtype::bf16)
    for (bf16_code c : x->elements<bf16_code>()) s.x.push_back(to_double(c));
  else
    for (f32_code c : file.require("x", dtype::f32, std::int64_t(x->rank())).elements<f32_code>()) s.x.push_back(to_double(c));
  return s;
}

std::vector<training_step> steps_of(study_options const& o, synthetic_run run) {
  run.seed = o.seed;
  if (o.files.empty()) {
    fmt::print("a run made up from seed {}: {} steps of {} tokens, d = {}, d_model = {}\n", o.seed, run.steps, run.tokens, run.head_dim, run.d_model);
    return make_run(run);
  }
  std::vector<training_step> steps;
  bool made_up = false;
  for (std::string const& file : o.files) {
    bool has_tokens = false;
    steps.push_back(step_of(o, file, run.d_model, std::int64_t(steps.size()), has_tokens));
    made_up = made_up || !has_tokens;
  }
  fmt::print("{} captures, one step each{}\n", steps.size(), made_up ? "; tokens made up where there is no tensor x" : "");
  return steps;
}

json print_head(std::string const& fix, std::size_t head, accumulation const& a) {
  double first_half = 0;
  for (std::size_t t = 0; t < a.coefficients.size() / 2; ++t) first_half += a.coefficients[t];
  fmt::print("{:<24} {:>4}  {:>+11.3e} {:>+11.3e}  {:>+7.2f}  {:>4} {:>4}  {:>9.2g}  {:>8}  {:>9}  {:>8.3f}\n", fix, head, first_half, a.sum, a.walks, a.positive, a.negative, a.sign_test,
             percent(a.share), percent(a.relative_error), a.similarity);
  return {{"fix", fix}, {"head", head}, {"coefficients", a.coefficients}, {"sum", a.sum}, {"walks", a.walks}, {"positive", a.positive}, {"negative", a.negative},
          {"sign_test", a.sign_test}, {"share", a.share}, {"relative_error", std::isfinite(a.relative_error) ? json(a.relative_error) : json(nullptr)},
          {"similarity", a.similarity}};
}

constexpr std::string_view heading =
    "R: the common direction of (PK)^T X over all steps; c: the coefficient of the error of dWq = dQ^T X along R.\n"
    "random walks: the sum of c over the root of its sum of squares, about 1 without a bias, about the root of the number of steps with one.\n"
    "along R: share of the accumulated error's sum of squares. size: |accumulated error| / |accumulated gradient|. cosine: of (PK)^T X and R.\n";

void run_study(study_options const& o, synthetic_run const& run) {
  attention_schedule const& schedule = attention_schedule_named(o.schedules.front());
  const engine how = engine_named(o.overrides.engine_name);
  const std::vector<std::string> standard{"none", "beta", "delta-fp32", "gproj"};
  std::vector<std::string> const& fixes = o.fixes.empty() ? standard : o.fixes;
  std::vector<std::vector<std::vector<weight_gradient>>> found(fixes.size());  // [fix][head][step]
  std::vector<attention_schedule> fixed;
  for (std::string const& fix : fixes) fixed.push_back(with_fixes(schedule, fix));
  std::int64_t rows = 0, columns = 0;
  {
    std::vector<training_step> steps = steps_of(o, run);
    terminal_progress bar("steps");
    const progress report = bar.report();
    for (std::size_t t = 0; t < steps.size(); ++t) {
      rows = steps[t].problem.head_dim, columns = steps[t].d_model;
      const mask_alignment mask = mask_of(schedule, steps[t].problem);
      const exact_step exact(std::move(steps[t]), mask);
      for (std::size_t f = 0; f < fixes.size(); ++f) {
        std::vector<weight_gradient> heads = weight_gradients(fixed[f], exact, how);
        if (t == 0) found[f].resize(heads.size());
        if (found[f].size() != heads.size()) throw std::invalid_argument("the captures of a sequence have different numbers of heads");
        for (std::size_t h = 0; h < heads.size(); ++h) found[f][h].push_back(std::move(heads[h]));
      }
      if (report) report(std::int64_t(t + 1), std::int64_t(steps.size()));
    }
  }
  fmt::print("{}{:<24} {:>4}  {:>11} {:>11}  {:>7}  {:>4} {:>4}  {:>9}  {:>8}  {:>9}  {:>8}\n", heading, schedule.name, "head", "half sum c", "sum of c", "walks", "+", "-", "sign test",
             "along R", "size", "cosine");
  json report{{"version", STICKYBIT_VERSION}, {"schedule", schedule.name}, {"results", json::array()}};
  for (std::size_t f = 0; f < fixes.size(); ++f)
    for (std::size_t h = 0; h < found[f].size(); ++h) report["results"].push_back(print_head(fixes[f], h, accumulate(found[f][h], rows, columns)));
  write_json(o.json_path, report);
}

}  // namespace

void add_study_low_rank(CLI::App& study, int& status) {
  auto o = std::make_shared<study_options>();
  auto run = std::make_shared<synthetic_run>();
  o->schedules = {"fa3"};
  CLI::App* command = study.add_subcommand("low-rank", "does the error of the gradient of Wq add up over steps along one direction?");
  o->add_to(*command, false);
  command->add_option("--seed", o->seed, "of what is made up")->capture_default_str();
  command->add_option("--steps", run->steps, "steps of the made-up run")->check(CLI::Range(1, 100000))->capture_default_str();
  command->add_option("--tokens", run->tokens, "its tokens a step")->check(CLI::Range(2, 4096))->capture_default_str();
  command->add_option("--key-mean", run->key_mean, "size of its keys' common mean")->capture_default_str();
  command->add_flag("!--random-do", run->one_signed_d_o, "dO of both signs, as a control");
  command->add_option("--d-model", run->d_model, "features of a token that is made up")->check(CLI::Range(4, 4096))->capture_default_str();
  command->add_option("--schedule", o->schedules, "kernel")->expected(1)->capture_default_str();
  command->callback([o, run, &status] {
    run_study(*o, *run);
    status = 0;
  });
}

}  // namespace stickybit::cli
