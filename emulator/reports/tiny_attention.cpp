#include "tiny_attention.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::detail {
namespace {

bf16_code exact_code(double x) {
  const bf16_code c = round_to<format::bf16>({x, 0});
  if (x == x && to_double(c) != x) throw std::logic_error(fmt::format("{} is not a number of BF16", x));
  return c;
}

std::vector<bf16_code> codes_of(std::vector<std::vector<double>> const& rows, std::int64_t columns) {
  std::vector<bf16_code> codes(rows.size() * std::size_t(columns), bf16_code::zero());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows[i].size(); ++j) codes[i * std::size_t(columns) + j] = exact_code(rows[i][j]);
  return codes;
}

}  // namespace

attention_problem problem_of(tiny_call const& call) {
  attention_problem p;
  p.queries = std::int64_t(call.q.size());
  p.keys = std::int64_t(call.k.size());
  p.head_dim = call.head_dim;
  p.causal = call.causal;
  p.softmax_scale = call.softmax_scale;
  p.q = codes_of(call.q, call.head_dim);
  p.k = codes_of(call.k, call.head_dim);
  p.v = codes_of(call.v, call.head_dim);
  if (!call.d_o.empty()) p.d_o = codes_of(call.d_o, call.head_dim);
  return p;
}

std::vector<double> score_parts(double x) {
  std::vector<double> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(to_double(round_to<format::bf16>({x, 0})));
    x -= parts.back();
  }
  return parts;
}

attention_schedule kernel(std::string_view schedule, std::string_view fix) { return with_fixes(attention_schedule_named(schedule), fix); }

std::string kernel_name(std::string_view schedule, std::string_view fix) { return fix == "none" ? std::string(schedule) : fmt::format("{} --fix {}", schedule, fix); }

forward_result forward_of(attention_schedule const& schedule, attention_problem const& problem) { return attention_forward(schedule, problem, engine::definition); }

backward_result backward_of(attention_schedule const& schedule, attention_problem const& problem, score_observer scores) {
  backward_options options;
  options.how = engine::definition;
  options.scores = std::move(scores);
  return attention_backward(schedule, problem, forward_of(schedule, problem), options);
}

exact_rows exact_output(attention_schedule const& schedule, attention_problem const& problem) { return exact_head(problem, mask_of(schedule, problem), 0, 0).evaluate(); }

head_gradients exact_gradient(attention_schedule const& schedule, attention_problem const& problem) {
  return exact_gradients_of_head(problem, mask_of(schedule, problem), 0, 0).evaluate();
}

}  // namespace stickybit::detail
