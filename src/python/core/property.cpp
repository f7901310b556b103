#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings.hpp"
#include "calls.hpp"
#include "interruptible.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/property/generators.hpp"
#include "stickybit/property/kernel.hpp"
#include "stickybit/property/properties.hpp"
#include "stickybit/property/report.hpp"
#include "stickybit/property/shrink.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

/// A call as stickybit/property.py takes it; the arrays are copies.
nb::dict call_of(attention_problem const& p) {
  nb::dict d;
  const std::vector<std::size_t> query = sizes_of(p.query_shape()), key = sizes_of(p.key_shape());
  const auto copy = [](std::vector<bf16_code> codes, std::vector<std::size_t> const& shape) { return numpy_of<std::uint16_t>(std::move(codes), shape); };
  d["q"] = copy(p.q, query);
  d["k"] = copy(p.k, key);
  d["v"] = copy(p.v, key);
  if (!p.d_o.empty()) d["do"] = copy(p.d_o, query);
  d["layout"] = text(name_of(p.layout));
  d["causal"] = p.causal;
  d["softmax_scale"] = p.softmax_scale;
  return d;
}

/// A function of Python as a kernel: given a call, it gives None (not supported) or a dict with o and perhaps lse, dq, dk, dv as codes of the right shapes,
/// or a text: what is wrong with what the function gave.
class python_kernel final : public kernel_under_test {
 public:
  python_kernel(nb::callable f, std::string name, bool has_backward, stop_request const& stop) : f_(std::move(f)), name_(std::move(name)), has_backward_(has_backward), stop_(stop) {}
  ~python_kernel() override {
    nb::gil_scoped_acquire held;
    f_.reset();
  }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool has_backward() const override { return has_backward_; }
  [[nodiscard]] kernel_results run(attention_problem const& problem, bool gradients) override {
    stop_.check();
    nb::gil_scoped_acquire held;
    nb::object answer;
    try {
      answer = f_(call_of(problem), gradients);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt and the like
      throw kernel_failure(failure_kind::error, fmt::format("{}: {}", nb::cast<std::string>(error.type().attr("__name__")), nb::cast<std::string>(nb::str(error.value()))));
    }
    if (answer.is_none()) throw unsupported_call("the function does not take this call");
    if (nb::isinstance<nb::str>(answer)) throw kernel_failure(failure_kind::wrong_output, nb::cast<std::string>(answer));
    const auto found = nb::cast<nb::dict>(answer);
    kernel_results r;
    const auto bf16 = [&](const char* name) { return found.contains(name) ? codes_of<bf16_code>(nb::cast<array_of<std::uint16_t>>(found[name], false)) : std::vector<bf16_code>{}; };
    r.o = bf16("o");
    if (found.contains("lse")) r.lse = codes_of<f32_code>(nb::cast<array_of<std::uint32_t>>(found["lse"], false));
    r.dq = bf16("dq");
    r.dk = bf16("dk");
    r.dv = bf16("dv");
    require_sizes(problem, r, gradients);
    return r;
  }

 private:
  nb::object f_;
  std::string name_;
  bool has_backward_;
  stop_request const& stop_;
};

case_space space_of(nb::dict const& d) {
  case_space s;
  const auto take = [&](const char* name, auto& to) {
    if (d.contains(name)) to = nb::cast<std::remove_reference_t<decltype(to)>>(d[name]);
  };
  take("head_dims", s.head_dims);
  if (d.contains("causal")) {
    s.causal.clear();
    for (nb::handle x : nb::cast<nb::list>(d["causal"])) s.causal.push_back(nb::cast<bool>(x));
  }
  take("least_queries", s.least_queries);
  take("most_queries", s.most_queries);
  take("most_keys", s.most_keys);
  take("batches", s.batches);
  take("scales", s.scales);
  take("gradients", s.gradients);
  take("finite", s.finite);
  take("only", s.only);
  for (std::string const& name : s.only) (void)generator_named(name);
  return s;
}

std::unique_ptr<kernel_under_test> kernel_of(nb::object const& kernel, std::string const& name, bool backward, double seconds, stop_request const& stop) {
  if (nb::isinstance<nb::str>(kernel)) {
    const auto words = nb::cast<std::string>(kernel);
    nb::gil_scoped_release released;
    return kernel_named(words, backward, {.seconds = seconds});
  }
  return std::make_unique<python_kernel>(nb::cast<nb::callable>(kernel), name, backward, stop);
}

struct checked {
  campaign_result result;
  std::vector<failure_report> reports;
  std::string unsteady;
};

nb::dict answer_of(checked const& c) {
  nb::dict d;
  d["passed"] = c.result.passed();
  d["json"] = to_json(c.result);
  d["junit"] = to_junit(c.result, c.reports);
  d["cases"] = c.result.cases();
  d["unsupported"] = c.result.unsupported;
  d["kernel"] = c.result.kernel;
  d["schedule"] = c.result.schedule;
  nb::list counts, reports;
  for (property_count const& p : c.result.properties) counts.append(nb::make_tuple(p.name, p.cases, p.inexact, p.failures, text(name_of(p.expected)), p.largest));
  for (failure_report const& r : c.reports) {
    nb::dict one = call_of(r.call);
    one["property"] = r.failed.property;
    one["seed"] = r.failed.seed;
    one["recipe"] = r.failed.recipe;
    one["what"] = r.what;
    one["first_step"] = r.first_step;
    one["cause"] = r.cause.cause;
    one["cause_known"] = r.cause.known;
    one["file"] = r.file.string();
    one["text"] = tell(r);
    reports.append(one);
  }
  d["counts"] = counts;
  d["reports"] = reports;
  d["unsteady"] = c.unsteady;
  d["failures"] = c.result.failures.size();
  const auto bias = [](sequential_mean_test const& t) { return nb::make_tuple(t.count(), t.mean(), t.standard_error(), t.biased()); };
  d["against_schedule"] = bias(c.result.against_schedule);
  d["against_exact"] = bias(c.result.against_exact);
  return d;
}

nb::dict check(nb::object kernel, std::string const& name, std::string const& schedule_words, nb::dict const& space, std::vector<std::string> const& properties, std::int64_t cases,
               std::uint64_t seed, std::int64_t most_failures, double error_rate, double timeout, bool diagnosis, std::string const& folder, std::string const& checkpoint) {
  const attention_schedule schedule = schedule_from(schedule_words);
  campaign_options o;
  o.space = space_of(space);
  o.space.least_queries = std::max(o.space.least_queries, schedule.min_queries);
  o.space.most_queries = std::max(o.space.most_queries, o.space.least_queries);
  for (std::string const& p : properties) (void)property_named(p);
  o.properties = properties;
  o.cases = cases;
  o.first_seed = seed;
  o.most_failures = most_failures;
  o.bias_error_rate = error_rate;
  o.checkpoint = checkpoint;
  const checked c = interruptible(false, [&](stop_request const& stop) {
    std::unique_ptr<kernel_under_test> tested;
    {
      nb::gil_scoped_acquire held;
      tested = kernel_of(kernel, name, o.space.gradients, timeout, stop);
    }
    o.report = stop.report();
    checked done{run_campaign(*tested, schedule, o), {}, {}};
    report_options how{.space = o.space, .shrinking = {}, .diagnoses = diagnosis, .diagnosing = {}, .folder = folder, .kernel_words = name, .schedule_words = schedule_words};
    for (failed_case const& f : done.result.failures) {
      if (done.reports.size() == 3) break;
      stop.check();
      try {
        done.reports.push_back(examine(*tested, schedule, f, how));
      } catch (std::invalid_argument const& error) {
        done.unsteady += std::string(error.what()) + "\n";  // not deterministic: the failure stands all the same
      }
    }
    return done;
  });
  return answer_of(c);
}

/// A call that still fails, with everything that does not matter taken away.  @returns the call, and how often fails was asked
nb::tuple shrink_call(call_arguments const& call, nb::callable fails, std::int64_t most_runs, double seconds) {
  attention_problem problem = in_standard_layout(problem_of(call));
  const shrunk_call shrunk = interruptible(false, [&](stop_request const& stop) {
    std::exception_ptr thrown;
    const auto still_fails = [&](attention_problem const& p) {
      if (thrown) return false;
      try {
        stop.check();
        nb::gil_scoped_acquire held;
        return nb::cast<bool>(fails(call_of(p)));
      } catch (...) {
        thrown = std::current_exception();
        return false;
      }
    };
    shrunk_call s = shrink(problem, still_fails, {.most_runs = most_runs, .seconds = seconds, .head_dims = {}});
    if (thrown) std::rethrow_exception(thrown);
    return s;
  });
  return nb::make_tuple(call_of(shrunk.problem), shrunk.runs);
}

}  // namespace

void bind_property(nb::module_& m) {
  nb::exception<kernel_failure>(m, "KernelFailure", PyExc_RuntimeError);
  m.def("check", &check, "kernel"_a, "name"_a, "schedule"_a, "space"_a, "properties"_a, "cases"_a, "seed"_a, "failures"_a, "error_rate"_a, "timeout"_a, "diagnosis"_a, "folder"_a, "checkpoint"_a);
  m.def("property_names", [] {
    nb::list all;
    for (attention_property const& p : all_properties()) all.append(nb::make_tuple(text(p.name), text(p.definition), text(p.domain), text(p.tolerance), p.gradients));
    return all;
  });
  m.def("generator_names", [] {
    nb::list all;
    for (generator const& g : all_generators()) all.append(nb::make_tuple(text(g.name), text(name_of(g.part)), text(g.exposes), g.finite));
    return all;
  });
  m.def("make_case", [](nb::dict const& space, std::optional<std::string> const& recipe, std::uint64_t seed) {
    const property_case c = recipe ? make_case(space_of(space), *recipe, seed) : make_case(space_of(space), seed);
    nb::dict d = call_of(c.problem);
    d["recipe"] = c.recipe;
    d["seed"] = c.seed;
    return d;
  }, "space"_a, "recipe"_a.none(), "seed"_a);
  m.def("shrink", &shrink_call, "call"_a, "fails"_a, "most_runs"_a, "seconds"_a);
}

}  // namespace stickybit::python
