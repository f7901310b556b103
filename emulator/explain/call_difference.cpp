#include "stickybit/explain/call_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "element_tables.hpp"
#include "stickybit/bias/compare.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/file_error.hpp"
#include "stickybit/tensor_file/shape.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

/// Results in the order in which a kernel computes them.
constexpr std::array results_in_order{"lse", "o", "lse_log2", "delta", "dv", "dk", "dq"};

call_side captured(std::string const& text, tensor_file const& file) {
  std::string producer = text.substr(text.find(':') + 1);
  std::ranges::replace(producer, '-', '_');
  call_side side{.name = text, .schedule = {}, .forward = {}, .results = {}};
  for (const char* result : results_in_order)
    if (tensor const* t = file.find(fmt::format("{}.{}", producer, result)); t != nullptr) side.results.emplace(result, *t);
  if (side.results.empty()) throw std::invalid_argument(fmt::format("'{}': the file has no tensor {}.o or the like", text, producer));
  return side;
}

/// The first rows of a padded [.., h, s'] tensor: what is there of every one of p's rows.
tensor without_padding(tensor const& t, attention_problem const& p) {
  const std::int64_t to = t.shape.back();
  if (to == p.queries || std::int64_t(t.elements<f32_code>().size()) != p.batch * p.heads * to) return t;
  const auto all = t.elements<f32_code>();
  std::vector<f32_code> rows;
  for (std::int64_t i = 0; i < p.batch * p.heads; ++i) rows.insert(rows.end(), all.begin() + i * to, all.begin() + i * to + p.queries);
  return make_tensor<f32_code>(dtype::f32, p.row_shape(), rows);
}

double value_at(tensor const& t, std::int64_t i) {
  return t.type == dtype::bf16 ? to_double(t.elements<bf16_code>()[std::size_t(i)]) : to_double(t.elements<f32_code>()[std::size_t(i)]);
}

std::string code_at(tensor const& t, std::int64_t i) {
  if (t.type == dtype::bf16) return fmt::format("{} ({})", decimal(t.elements<bf16_code>()[std::size_t(i)]), hex_code(t.elements<bf16_code>()[std::size_t(i)]));
  return fmt::format("{} ({})", decimal(t.elements<f32_code>()[std::size_t(i)]), hex_code(t.elements<f32_code>()[std::size_t(i)]));
}

/// How far the last value before the cast is from what would give the captured code.
std::string missing(account const& a, double wanted) {
  const std::size_t last = a.size() - 1;
  if (a[last].op != operation::cast || !std::isfinite(wanted) || !std::isfinite(a.value_of(last))) return {};
  const double before = a.value_of(last, 0), got = a.value_of(last);
  const double edge = wanted > got ? wanted - 0.5 * ulp_at<format::bf16>(wanted) : wanted + 0.5 * ulp_at<format::bf16>(wanted);
  const double away = edge - before;
  return fmt::format(" Before the cast the emulator has {:.9g}; for the captured code it would have to be {} {:.9g}, {:.3g} FP32 ulp away.", before, wanted > got ? "at least" : "at most", edge,
                     std::fabs(away) / ulp_at<format::f32>(before));
}

/// "fa3 -0.33 ulp (the cast of O to BF16 -0.3, ...)"
std::string error_words(call_side const& side, attention_problem const& p, std::string_view tensor, element_place at, account const& a) {
  const error_shares shares = share_error(a);
  if (!shares.finite) return fmt::format("{} is not finite", side.name);
  const std::string parts = detail::largest_shares({*side.schedule, p, tensor, at, a}, group_shares(a, shares));
  return fmt::format("{} {} ulp{}", side.name, detail::signed_ulps(shares.total), parts.empty() ? parts : " (" + parts + ")");
}

std::string against_capture(call_side const& emulated, call_side const& capture, attention_problem const& p, std::string_view tensor, element_place at) {
  const account a = account_of(*emulated.schedule, p, tensor, at, emulated.forward);
  stickybit::tensor const& t = capture.results.find(tensor)->second;
  const std::int64_t i = index_of(p, tensor, at);
  const told_element e{*emulated.schedule, p, tensor, at, a};
  const std::string captured = code_at(t, i), here = code_at(emulated.results.find(tensor)->second, i);
  std::string text = fmt::format("{}: {} has {}, {} gives {}.", name_of(e), capture.name, captured, emulated.name, captured == here ? "the same" : here);
  if (a[a.size() - 1].result == format::bf16 && captured != here) text += missing(a, value_at(t, i));
  return detail::wrapped(text, 110) + "What the emulator did:\n" + tell(e, detail_level::paragraph);
}

}  // namespace

attention_schedule schedule_from(std::string const& text) {
  const std::size_t fix = std::min(text.find('+'), text.size()), unit = std::min(text.find('@'), text.size());
  if (unit > fix && unit < text.size()) throw std::invalid_argument(fmt::format("'{}': expected SCHEDULE[@UNIT][+FIX]", text));
  attention_schedule s = attention_schedule_named(text.substr(0, std::min(unit, fix)));
  if (unit < fix) s.unit = unit_named(text.substr(unit + 1, fix - unit - 1)).name;
  return fix == text.size() ? s : with_fixes(s, text.substr(fix + 1));
}

call_side make_side(std::string const& text, tensor_file const& file, attention_problem const& problem, bool gradients) {
  if (text.starts_with("capture:")) {
    call_side side = captured(text, file);
    for (auto& [name, t] : side.results)
      if (t.type == dtype::f32) t = without_padding(t, problem);
    return side;
  }
  call_side side{.name = text, .schedule = schedule_from(text), .forward = {}, .results = {}};
  side.forward = attention_forward(*side.schedule, problem);
  side.results.emplace("o", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), side.forward.o));
  side.results.emplace("lse", make_tensor<f32_code>(dtype::f32, problem.row_shape(), side.forward.lse));
  if (!gradients || problem.d_o.empty()) return side;
  backward_result g;
  try {
    g = attention_backward(*side.schedule, problem, side.forward);
  } catch (unsupported_call const&) {
    return side;  // forward alone
  }
  side.results.emplace("dq", make_tensor<bf16_code>(dtype::bf16, problem.output_shape(), g.dq));
  side.results.emplace("dk", make_tensor<bf16_code>(dtype::bf16, problem.key_shape(), g.dk));
  side.results.emplace("dv", make_tensor<bf16_code>(dtype::bf16, problem.key_shape(), g.dv));
  side.results.emplace("delta", make_tensor<f32_code>(dtype::f32, problem.row_shape(), g.delta));
  side.results.emplace("lse_log2", make_tensor<f32_code>(dtype::f32, problem.row_shape(), g.lse_log2));
  return side;
}

call_difference compare_sides(call_side const& a, call_side const& b) {
  if (!a.schedule && !b.schedule) throw std::invalid_argument(fmt::format("{} and {}: two captures have no steps to compare; `stickybit compare` compares their codes", a.name, b.name));
  for (call_side const* side : {&a, &b})
    if (side->schedule && side->schedule->kind == schedule_kind::exact_value) throw std::invalid_argument(fmt::format("{}: nothing is rounded before the end, so there are no steps to compare", side->name));
  call_difference d;
  for (const char* name : results_in_order) {
    const auto x = a.results.find(name), y = b.results.find(name);
    if (x == a.results.end() || y == b.results.end()) continue;
    if (x->second.type != y->second.type || x->second.shape != y->second.shape)
      throw std::invalid_argument(fmt::format("{} of {} is {}, of {} {}: expected equal shapes", name, a.name, shape_text(x->second.shape), b.name, shape_text(y->second.shape)));
    const comparison c = compare(x->second, y->second);
    d.tensors.push_back({name, c.mismatches, c.total, c.first ? c.first->index : -1});
    if (d.earliest.empty() && d.tensors.back().mismatches != 0) d.earliest = name;
  }
  if (d.tensors.empty()) throw std::invalid_argument(fmt::format("{} and {} have no result in common", a.name, b.name));
  return d;
}

element_place place_of(attention_problem const& p, std::string_view tensor, std::int64_t index) {
  if (tensor == "lse" || tensor == "lse_log2" || tensor == "delta") return {index / (p.heads * p.queries), index / p.queries % p.heads, index % p.queries, 0};
  const bool of_key = tensor == "dk" || tensor == "dv";
  const std::int64_t heads = of_key ? p.key_heads : p.heads, rows = of_key ? p.keys : p.queries, d = p.head_dim;
  const std::int64_t column = index % d, middle = index / d, batch = middle / (heads * rows), rest = middle % (heads * rows);
  if (p.layout == tensor_layout::b_h_s_d) return {batch, rest / rows, rest % rows, column};
  return {batch, rest % heads, rest / heads, column};
}

std::int64_t index_of(attention_problem const& p, std::string_view tensor, element_place at) {
  if (tensor == "lse" || tensor == "lse_log2" || tensor == "delta") return (at.batch * p.heads + at.head) * p.queries + at.row;
  const row_strides strides = tensor == "dk" || tensor == "dv" ? p.key_strides() : p.query_strides();
  return strides.offset(at.batch, at.head, at.row) + at.column;
}

std::string tell_difference(call_side const& a, call_side const& b, attention_problem const& p, std::string_view tensor, element_place at) {
  for (call_side const* side : {&a, &b})
    if (!side->schedule && side->results.find(tensor) == side->results.end()) throw std::invalid_argument(fmt::format("{} has no {}", side->name, tensor));
  if (!a.schedule) return against_capture(b, a, p, tensor, at);
  if (!b.schedule) return against_capture(a, b, p, tensor, at);
  const account of_a = account_of(*a.schedule, p, tensor, at, a.forward), of_b = account_of(*b.schedule, p, tensor, at, b.forward);
  const told_element e{*a.schedule, p, tensor, at, of_a};
  const std::optional<account_difference> d = first_difference(of_a, of_b, a.name, b.name);
  const auto result = [](account const& x) { return detail::decimal_of(x[x.size() - 1].result, x[x.size() - 1].bits) + " (" + detail::hex_of(x[x.size() - 1].result, x[x.size() - 1].bits) + ")"; };
  std::string text = detail::wrapped(fmt::format("{}: {} gives {}, {} gives {}; exactly {:.10g}.", name_of(e), a.name, result(of_a), b.name, result(of_b), of_a[of_a.size() - 1].exact.hi), 110);
  text += d ? tell(*d) : std::string("Every quantity that both name has the same code in both.\n");
  return text + detail::wrapped(fmt::format("Errors against the mathematical value: {}; {}.", error_words(a, p, tensor, at, of_a), error_words(b, p, tensor, at, of_b)), 110);
}

}  // namespace stickybit
