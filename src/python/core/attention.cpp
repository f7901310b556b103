#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bindings.hpp"
#include "calls.hpp"
#include "interruptible.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/score_matrices.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/study/regimes.hpp"

namespace stickybit::python {

attention_problem problem_of(call_arguments const& c) {
  attention_problem p;
  p.layout = parse_layout(c.layout);
  p.causal = c.causal;
  p.softmax_scale = c.softmax_scale;
  p.call_heads = c.call_heads;
  p.sm_count = c.sm_count;
  const auto size = [](array_of<std::uint16_t> const& a, std::size_t from_last) { return std::int64_t(a.shape(a.ndim() - from_last)); };
  const std::size_t head = p.layout == tensor_layout::b_h_s_d ? 3 : 2, row = 5 - head;
  p.batch = c.q.ndim() == 4 ? size(c.q, 4) : 1;
  p.heads = size(c.q, head);
  p.queries = size(c.q, row);
  p.key_heads = size(c.k, head);
  p.keys = size(c.k, row);
  p.head_dim = size(c.q, 1);
  p.q = codes_of<bf16_code>(c.q);
  p.k = codes_of<bf16_code>(c.k);
  p.v = codes_of<bf16_code>(c.v);
  if (c.d_o) p.d_o = codes_of<bf16_code>(*c.d_o);
  return p;
}

attention_schedule schedule_of(std::string const& name, std::optional<std::string> const& unit, std::string const& fix) {
  attention_schedule chosen = attention_schedule_named(name);
  if (unit) chosen.unit = unit_named(*unit).name;
  return with_fixes(chosen, fix);
}

bool is_short_call(attention_problem const& p, bool backward, std::string const& engine) noexcept {
  const double products = double(p.batch) * double(p.heads) * double(p.queries) * double(p.keys) * double(p.head_dim) * (backward ? 7 : 2);
  return products < (engine == "fast" ? 3e7 : 3e5);
}

namespace {

using namespace nb::literals;

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

bool wants(std::vector<std::string> const& tensors, std::string_view name) { return std::find(tensors.begin(), tensors.end(), name) != tensors.end(); }

nb::object numpy_of_tensor(tensor const& t) {
  const std::vector<std::size_t> shape = sizes_of(t.shape);
  if (t.type == dtype::bf16) return numpy_of<std::uint16_t>(t.elements<std::uint16_t>(), shape);
  return numpy_of<std::uint32_t>(t.elements<std::uint32_t>(), shape);
}

struct call_results {
  forward_result forward;
  backward_result backward;
};

/// The tensors of `wanted`, by name: BF16 codes as uint16, FP32 codes as uint32.
nb::dict attention(call_arguments const& call, std::string const& schedule_name, std::optional<std::string> const& unit, std::string const& fix, std::string const& engine_name,
                   std::vector<std::string> const& wanted, std::optional<array_of<std::uint16_t>> const& stored_o, std::optional<array_of<std::uint32_t>> const& stored_lse) {
  const attention_problem p = problem_of(call);
  const attention_schedule schedule = schedule_of(schedule_name, unit, fix);
  const engine how = engine_by_name(engine_name);
  const bool backward = call.d_o.has_value();
  score_matrices scores(p, backward ? wanted : std::vector<std::string>{});
  call_results r = interruptible(is_short_call(p, backward, engine_name), [&](stop_request const& stop) {
    call_results results;
    if (stored_o) results.forward = {codes_of<bf16_code>(*stored_o), codes_of<f32_code>(*stored_lse), {}};
    else results.forward = attention_forward(schedule, p, how, stop.report());
    if (backward)
      results.backward = attention_backward(schedule, p, results.forward,
                                            {.how = how, .keep_f32 = wants(wanted, "dq_f32") || wants(wanted, "dk_f32"), .report = stop.report(), .scores = scores.observer(), .dq_parts = {}, .dq_order = {}});
    return results;
  });
  const std::vector<std::size_t> query = sizes_of(p.query_shape()), key = sizes_of(p.key_shape()), row = sizes_of(p.row_shape());
  nb::dict out;
  for (std::string const& name : wanted) {
    const char* as = name.c_str();
    if (name == "o") out[as] = numpy_of<std::uint16_t>(std::move(r.forward.o), query);
    else if (name == "lse") out[as] = numpy_of<std::uint32_t>(std::move(r.forward.lse), row);
    else if (name == "dq") out[as] = numpy_of<std::uint16_t>(std::move(r.backward.dq), query);
    else if (name == "dk") out[as] = numpy_of<std::uint16_t>(std::move(r.backward.dk), key);
    else if (name == "dv") out[as] = numpy_of<std::uint16_t>(std::move(r.backward.dv), key);
    else if (name == "dq_f32") out[as] = numpy_of<std::uint32_t>(std::move(r.backward.dq_f32), query);
    else if (name == "dk_f32") out[as] = numpy_of<std::uint32_t>(std::move(r.backward.dk_f32), key);
    else if (name == "delta") out[as] = numpy_of<std::uint32_t>(std::move(r.backward.delta), row);
    else if (name == "lse_log2") out[as] = numpy_of<std::uint32_t>(std::move(r.backward.lse_log2), row);
    else if (const std::optional<tensor> matrix = scores.take(name, schedule.backward_in_fp32)) out[as] = numpy_of_tensor(*matrix);
    else throw std::invalid_argument(fmt::format("tensors: there is no '{}' in this call", name));
  }
  return out;
}

/// Seconds of each of so many forward passes of the library alone, for benchmarks: neither checks nor copies of Python's.
std::vector<double> library_seconds(call_arguments const& call, std::string const& schedule_name, int repeats) {
  const attention_problem p = problem_of(call);
  const attention_schedule schedule = schedule_of(schedule_name, std::nullopt, "none");
  nb::gil_scoped_release released;
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    (void)attention_forward(schedule, p);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  return seconds;
}

nb::dict schedule_facts(attention_schedule const& s) {
  nb::dict d;
  d["name"] = text(s.name);
  d["kernel"] = text(s.kernel);
  d["unit"] = text(s.unit);
  d["has_backward"] = !s.backward_tiles.empty() || s.kind != schedule_kind::online;
  nb::list facts;
  for (fact const& f : s.facts) facts.append(nb::make_tuple(text(f.rule), text(name_of(f.mark)), text(f.checked_against)));
  d["facts"] = facts;
  return d;
}

nb::dict call_of(attention_problem&& p) {
  nb::dict d;
  const std::vector<std::size_t> query = sizes_of(p.query_shape()), key = sizes_of(p.key_shape());
  d["q"] = numpy_of<std::uint16_t>(std::move(p.q), query);
  d["k"] = numpy_of<std::uint16_t>(std::move(p.k), key);
  d["v"] = numpy_of<std::uint16_t>(std::move(p.v), key);
  if (!p.d_o.empty()) d["do"] = numpy_of<std::uint16_t>(std::move(p.d_o), query);
  d["layout"] = text(name_of(p.layout));
  d["causal"] = p.causal;
  d["softmax_scale"] = p.softmax_scale;
  return d;
}

}  // namespace

void bind_attention(nb::module_& m) {
  nb::class_<call_arguments>(m, "Call")
      .def("__init__",
           [](call_arguments* self, array_of<std::uint16_t> q, array_of<std::uint16_t> k, array_of<std::uint16_t> v, std::optional<array_of<std::uint16_t>> d_o, std::string const& layout,
              bool causal, double softmax_scale, std::int64_t heads, std::int64_t sms) { new (self) call_arguments{q, k, v, d_o, layout, causal, softmax_scale, heads, sms}; },
           "q"_a, "k"_a, "v"_a, "do"_a.none(), "layout"_a, "causal"_a, "softmax_scale"_a, "heads"_a, "sms"_a);
  m.def("attention", &attention, "call"_a, "schedule"_a, "unit"_a.none(), "fix"_a, "engine"_a, "tensors"_a, "o"_a.none() = nb::none(), "lse"_a.none() = nb::none());
  m.def("library_seconds", &library_seconds, "call"_a, "schedule"_a, "repeats"_a);
  m.def("schedule_names", [] {
    nb::list all;
    for (attention_schedule const& s : all_attention_schedules()) all.append(text(s.name));
    return all;
  });
  m.def("schedule_facts", [](std::string const& name) { return schedule_facts(attention_schedule_named(name)); }, "schedule"_a);
  m.def("fix_table", [] {
    nb::list all;
    for (fix_description const& f : all_fixes()) {
      nb::dict d;
      d["name"] = text(f.name);
      d["parameters"] = text(f.parameters);
      d["replaces"] = text(f.replaces);
      d["source"] = text(f.source);
      d["traps"] = text(f.traps);
      all.append(d);
    }
    return all;
  });
  m.def("check_schedule", [](std::string const& name, std::optional<std::string> const& unit, std::string const& fix) { (void)schedule_of(name, unit, fix); }, "schedule"_a, "unit"_a.none(), "fix"_a);
  m.def("regime_names", [] {
    nb::list all;
    for (named_regime const& r : named_regimes()) all.append(text(r.name));
    return all;
  });
  m.def("regime", [](std::string const& name, std::uint64_t seed, std::int64_t queries, std::int64_t heads) {
    named_regime r = regime_named(name);
    if (queries > 0) r.queries = queries;
    if (heads > 0) r.heads = r.key_heads = heads;
    return call_of(generate(r, seed));
  }, "name"_a, "seed"_a, "queries"_a, "heads"_a);
}

}  // namespace stickybit::python
