#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "bindings.hpp"
#include "calls.hpp"
#include "interruptible.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/explain/difference.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/explain/figures.hpp"
#include "stickybit/explain/operations.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/figure/svg.hpp"
#include "stickybit/figure/tikz.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

detail_level level_by_name(std::string const& text) {
  return named(std::array{detail_level::paragraph, detail_level::screen, detail_level::everything},
               [](detail_level l) { return l == detail_level::paragraph ? "paragraph" : l == detail_level::screen ? "screen" : "everything"; }, text, "level");
}

/// The call that an element belongs to.
struct element_context {
  attention_schedule schedule;
  attention_problem problem;
  std::string tensor, fix;
  element_place at;
};

/// An account with what is needed to tell it.
class explanation {
 public:
  explanation(account steps, std::string title, std::string contrast = {}) : steps_(std::move(steps)), title_(std::move(title)), contrast_(std::move(contrast)) {}
  explanation(account steps, std::shared_ptr<element_context const> context) : steps_(std::move(steps)), context_(std::move(context)) { title_ = name_of(told()); }

  [[nodiscard]] std::string text(std::string const& level, bool color) const {
    const text_style style = color ? text_style::ansi : text_style::plain;
    return (context_ ? tell(told(), level_by_name(level), style) : tell(steps_, level_by_name(level), style)) + contrast_;
  }
  /// @param surroundings  of an element of attention: also its head's errors and, of O, its rounding points, which takes as long as the call or longer
  [[nodiscard]] std::string html(bool surroundings) const {
    const std::string footer = "Made by stickybit " STICKYBIT_VERSION ".";
    if (!context_) return to_html(account_page(steps_, title_, footer));
    element_surroundings around{.footer = footer};
    if (surroundings) add_surroundings(around);
    return to_html(element_page(told(), around));
  }
  [[nodiscard]] std::string picture(std::string const& name, std::string const& kind, std::string const& id) const {
    const bool in_blocks = std::ranges::any_of(steps_.steps(), [](account_step const& s) { return s.op == operation::block_fma; });
    const std::string chosen = !name.empty() ? name : context_ ? "shares" : in_blocks ? "block" : "rounding";
    const std::optional<figure::scene> scene = picture_named(steps_, chosen, context_ ? rounding_of : name_of_group, context_ ? std::string_view(context_->tensor) : std::string_view());
    if (!scene) throw std::invalid_argument(fmt::format("figure: this account has no picture '{}'; expected one of rounding, block, shares, error, row", chosen));
    if (kind == "tikz") return to_tikz(*scene);
    return to_svg(*scene, {.standalone = kind == "file", .id = id});
  }

  [[nodiscard]] account const& steps() const noexcept { return steps_; }
  [[nodiscard]] std::string const& title() const noexcept { return title_; }
  [[nodiscard]] std::size_t last() const noexcept { return steps_.size() - 1; }

 private:
  [[nodiscard]] told_element told() const { return {context_->schedule, context_->problem, context_->tensor, context_->at, steps_, context_->fix}; }

  void add_surroundings(element_surroundings& around) const {
    told_element const e = told();
    interruptible(false, [&](stop_request const& stop) {
      if (has_error_map(e.tensor)) {
        const forward_result forward = attention_forward(e.schedule, e.problem, engine::fast, stop.report());
        if (e.tensor == "o") {
          around.map = map_errors(e.schedule, e.problem, e.tensor, forward.o, e.at.batch, e.at.head);
        } else {
          const backward_result g = attention_backward(e.schedule, e.problem, forward, {.report = stop.report(), .scores = {}, .dq_parts = {}, .dq_order = {}});
          around.map = map_errors(e.schedule, e.problem, e.tensor, e.tensor == "dq" ? g.dq : e.tensor == "dk" ? g.dk : g.dv, e.at.batch, e.at.head);
        }
      }
      if (e.tensor != "o") return;
      try {
        const output_bias bias = bias_of_output(e.schedule, e.problem);
        around.attribution = by_name(attribute_output(e.schedule, e.problem, bias.o));
      } catch (unsupported_call const&) {  // a page without it
      }
    });
  }

  account steps_;
  std::string title_, contrast_;
  std::shared_ptr<element_context const> context_;
};

nb::dict step_facts(account const& a, std::size_t i) {
  account_step const& s = a[i];
  nb::dict d;
  d["index"] = i;
  d["label"] = label_of(a, i);
  d["named"] = !s.name.symbol.empty();
  d["meaning"] = meaning_of(s.name);
  const std::string_view op = name_of(s.op), f = traits_of(s.result).name;
  d["operation"] = nb::str(op.data(), op.size());
  d["format"] = nb::str(f.data(), f.size());
  d["code"] = s.bits;
  d["value"] = a.value_of(i);
  d["exact"] = s.exact.hi;
  d["exact_low"] = s.exact.lo;
  d["error_ulp"] = a.error_in_ulp(i);
  d["own_error_ulp"] = s.op == operation::input ? 0.0 : a.own_error_in_ulp(i);
  nb::list operands;
  for (account_operand const& o : a.operands(i)) operands.append(nb::make_tuple(o.step == account_operand::literal ? nb::object(nb::none()) : nb::object(nb::int_(o.step)), o.bits, o.negated));
  d["operands"] = operands;
  return d;
}

std::vector<std::uint32_t> codes(array_of<std::uint32_t> const& a) { return {a.data(), a.data() + a.size()}; }
std::vector<f32_code> f32_codes(array_of<std::uint32_t> const& a) { return codes_of<f32_code>(a); }

explanation explain_fma(std::string const& name, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const format f = format_by_name(name);
  const fma_accounts accounts = accounts_of_fma(f, a, b, c);
  const auto line = [&](std::string const& how, account const& other) {
    account_step const &s = other[other.size() - 1], &fused = accounts.fused[accounts.fused.size() - 1];
    return fmt::format("  {:<52} {:>14.9g}  0x{:0{}X}  {}\n", how, other.value_of(other.size() - 1), s.bits, (traits_of(s.result).width_bits + 3) / 4, s.bits == fused.bits ? "the same" : "ANOTHER CODE");
  };
  std::string contrast = "\nRounded twice it would be:\n";
  if (accounts.through_f32) contrast += line(fmt::format("fma in f32, the result then rounded to {}", name), *accounts.through_f32);
  contrast += line(fmt::format("not fused: the product rounded to {}, then the sum", name), accounts.unfused);
  return {accounts.fused, "A fused multiply-add", contrast};
}

explanation explain_attention(call_arguments const& call, std::string const& schedule, std::optional<std::string> const& unit, std::string const& fix, std::string const& tensor,
                              std::vector<std::int64_t> const& at) {
  auto context = std::make_shared<element_context>(schedule_of(schedule, unit, fix), problem_of(call), tensor, fix, element_place{at.at(0), at.at(1), at.at(2), at.at(3)});
  account steps = interruptible(is_short_call(context->problem, true, "fast"), [&](stop_request const& stop) {
    const forward_result forward = is_forward_tensor(tensor) ? forward_result{} : attention_forward(context->schedule, context->problem, engine::fast, stop.report());
    return account_of(context->schedule, context->problem, tensor, context->at, forward);
  });
  return {std::move(steps), std::move(context)};
}

explanation explain_softmax(array_of<std::uint32_t> const& scores, array_of<std::uint16_t> const& values, std::string const& schedule, std::optional<std::string> const& unit,
                            std::string const& fix, std::string const& tensor, double scale, std::int64_t head_dim) {
  const std::vector<f32_code> s = f32_codes(scores);
  const std::vector<bf16_code> v = codes_of<bf16_code>(values);
  auto context = std::make_shared<element_context>(schedule_of(schedule, unit, fix), one_row_problem(s, v, scale, head_dim), tensor, fix, element_place{});
  account steps = account_of_softmax(context->schedule, context->problem, s, tensor);
  return {std::move(steps), std::move(context)};
}

/// Where two schedules part on a call.  @returns the words, and whether they differ
nb::tuple explain_difference(call_arguments const& call, std::string const& a_text, std::string const& b_text, bool gradients, std::optional<std::string> const& tensor_wanted,
                             std::optional<std::vector<std::int64_t>> const& at_wanted) {
  const attention_problem problem = problem_of(call);
  struct told {
    std::string words;
    bool differ;
  };
  const told t = interruptible(is_short_call(problem, gradients, "fast"), [&](stop_request const& stop) {
    const tensor_file none;
    const call_side a = make_side(a_text, none, problem, gradients);
    stop.check();
    const call_side b = make_side(b_text, none, problem, gradients);
    stop.check();
    const call_difference d = compare_sides(a, b);
    std::string words;
    for (tensor_comparison const& c : d.tensors) words += fmt::format("{}: {} mismatches of {}\n", c.tensor, c.mismatches, c.total);
    std::string tensor = tensor_wanted.value_or("o");
    element_place at;
    if (at_wanted) {
      at = {at_wanted->at(0), at_wanted->at(1), at_wanted->at(2), at_wanted->at(3)};
    } else if (!d.earliest.empty()) {
      tensor = d.earliest;
      for (tensor_comparison const& c : d.tensors)
        if (c.tensor == tensor) at = place_of(problem, tensor, c.first);
    }
    if (!at_wanted && d.earliest.empty()) words += fmt::format("\n{} and {} give the same codes everywhere\n", a.name, b.name);
    else words += "\n" + tell_difference(a, b, problem, tensor, at);
    return told{words, !d.earliest.empty()};
  });
  return nb::make_tuple(t.words, t.differ);
}

nb::tuple explain_dot_difference(std::string const& unit_a, std::string const& unit_b, array_of<std::uint32_t> const& a, array_of<std::uint32_t> const& b, std::uint32_t c) {
  const std::vector<std::uint32_t> left = codes(a), right = codes(b);
  const account one = account_of_dot(unit_named(unit_a), raw_operands{left, right}, f32_code::from_bits(c));
  const account other = account_of_dot(unit_named(unit_b), raw_operands{left, right}, f32_code::from_bits(c));
  const auto difference = first_difference(one, other, unit_a, unit_b);
  std::string words = fmt::format("{}\n{}\n{}\n{}\n", unit_a, tell(one, detail_level::paragraph), unit_b, tell(other, detail_level::paragraph));
  words += difference ? tell(*difference) : std::string("Both give the same codes.\n");
  return nb::make_tuple(words, difference.has_value());
}

operation function_by_name(std::string const& name) {
  return named(std::array{operation::ex2, operation::exp2, operation::expf, operation::rcp, operation::lg2, operation::logf, operation::log2f}, [](operation o) { return name_of(o); }, name, "function");
}

}  // namespace

void bind_explain(nb::module_& m) {
  nb::class_<explanation>(m, "Account")
      .def("text", &explanation::text, "level"_a, "color"_a)
      .def("html", &explanation::html, "surroundings"_a)
      .def("picture", &explanation::picture, "name"_a, "kind"_a, "id"_a)
      .def("step", [](explanation const& e, std::size_t i) {
        if (i >= e.steps().size()) throw std::out_of_range(fmt::format("step: expected 0 to {}, found {}", e.last(), i));
        return step_facts(e.steps(), i);
      }, "index"_a)
      .def("step_text", [](explanation const& e, std::size_t i) {
        if (i >= e.steps().size()) throw std::out_of_range(fmt::format("step: expected 0 to {}, found {}", e.last(), i));
        return tell_step(e.steps(), i);
      }, "index"_a)
      .def("replay", [](explanation const& e) {
        nb::gil_scoped_release released;
        return !replay(e.steps()).has_value();
      })
      .def_prop_ro("title", &explanation::title)
      .def("__len__", [](explanation const& e) { return e.steps().size(); });

  m.def("explain_add", [](array_of<std::uint32_t> x, std::string const& f) { return explanation(account_of_add(f32_codes(x), format_by_name(f)), fmt::format("A sum in FP32, rounded to {}", f)); }, "operands"_a,
        "format"_a);
  m.def("explain_cast", [](std::uint32_t x, std::string const& f, std::string const& mode, bool flush) {
    return explanation(account_of_cast(f32_code::from_bits(x), format_by_name(f), rounding_by_name(mode), flush ? subnormals::flushed : subnormals::kept), fmt::format("A cast to {}", f));
  }, "x"_a, "format"_a, "mode"_a, "flush"_a);
  m.def("explain_fma", &explain_fma, "format"_a, "a"_a, "b"_a, "c"_a);
  m.def("explain_function", [](std::string const& name, std::uint32_t x) { return explanation(account_of_function(function_by_name(name), f32_code::from_bits(x)), name + " of an FP32 number"); }, "name"_a, "x"_a);
  m.def("explain_dot", [](std::string const& unit, array_of<std::uint32_t> a, array_of<std::uint32_t> b, std::uint32_t c, int slices) {
    const std::vector<std::uint32_t> left = codes(a), right = codes(b);
    const raw_operands operands{left, right};
    machine_unit const& u = unit_named(unit);
    return explanation(slices == 1 ? account_of_dot(u, operands, f32_code::from_bits(c)) : account_of_slices(u, operands, f32_code::from_bits(c), slices), fmt::format("An inner product on {}", unit));
  }, "unit"_a, "a"_a, "b"_a, "c"_a, "slices"_a);
  m.def("explain_dot_difference", &explain_dot_difference, "unit_a"_a, "unit_b"_a, "a"_a, "b"_a, "c"_a);
  m.def("explain_attention", &explain_attention, "call"_a, "schedule"_a, "unit"_a.none(), "fix"_a, "tensor"_a, "at"_a);
  m.def("explain_softmax", &explain_softmax, "scores"_a, "values"_a, "schedule"_a, "unit"_a.none(), "fix"_a, "tensor"_a, "softmax_scale"_a, "head_dim"_a);
  m.def("explain_difference", &explain_difference, "call"_a, "a"_a, "b"_a, "gradients"_a, "tensor"_a.none(), "at"_a.none());
  m.def("explained_tensors", [] {
    nb::list all;
    for (std::string_view t : explained_tensors()) all.append(nb::str(t.data(), t.size()));
    return all;
  });
  m.def("figure_css", [] { return figure::figure_css(); });
  m.def("colour_variables", [](bool dark) { return figure::colour_variables(dark); }, "dark"_a);
}

}  // namespace stickybit::python
