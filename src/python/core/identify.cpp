#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "calls.hpp"
#include "interruptible.hpp"
#include "stickybit/identify/attention_search.hpp"
#include "stickybit/identify/backward_search.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

/// f(a, b, c) of Python as a unit: codes as uint64 arrays [n, K], [n, K], [n] in, [n] out.
class python_unit final : public unit_under_test {
 public:
  python_unit(nb::callable f, unit_formats formats, stop_request const& stop) : f_(std::move(f)), formats_(formats), stop_(stop) {}
  [[nodiscard]] unit_formats formats() const override { return formats_; }
  [[nodiscard]] std::vector<std::uint64_t> evaluate(std::span<unit_case const> cases) override {
    stop_.check();
    nb::gil_scoped_acquire held;
    const std::size_t n = cases.size(), k = std::size_t(formats_.k);
    std::vector<std::uint64_t> a, b, c;
    for (unit_case const& x : cases) {
      a.insert(a.end(), x.a.begin(), x.a.end());
      b.insert(b.end(), x.b.begin(), x.b.end());
      c.push_back(x.c);
    }
    const nb::object answer = f_(numpy_of<std::uint64_t>(std::move(a), {n, k}), numpy_of<std::uint64_t>(std::move(b), {n, k}), numpy_of<std::uint64_t>(std::move(c)));
    const auto codes = nb::cast<array_of<std::uint64_t>>(answer, false);
    if (codes.size() != n) throw unit_failure(fmt::format("the function gave {} results for {} cases", codes.size(), n));
    return {codes.data(), codes.data() + n};
  }

 private:
  nb::callable f_;
  unit_formats formats_;
  stop_request const& stop_;
};

nb::dict answer_of(unit_identification const& r) {
  nb::dict d;
  nb::list known, lines;
  for (std::string const& name : r.known) known.append(name);
  for (unit_line const& l : r.lines) {
    nb::list also;
    for (std::string const& value : l.also_fits) also.append(value);
    lines.append(nb::make_tuple(l.rule, l.value, also));
  }
  d["known"] = known;
  d["rules"] = lines;
  d["failure"] = r.failure;
  d["probes"] = r.probes;
  d["verified"] = r.verified;
  d["several_nans"] = r.several_nans;
  d["description"] = r.description ? nb::object(nb::str(unit_json(r.description->unit, r.description->name).c_str())) : nb::none();
  return d;
}

nb::dict identify_function(nb::callable f, std::string const& a, std::string const& b, std::string const& c, std::string const& output, int k, std::uint64_t seed, int check) {
  const unit_formats formats{format_by_name(a, "a"), format_by_name(b, "b"), format_by_name(c, "c"), format_by_name(output, "output"), k};
  const unit_identification r = interruptible(false, [&](stop_request const& stop) {
    struct with_gil {  // the callable's reference is given back under the GIL
      python_unit* unit;
      ~with_gil() {
        nb::gil_scoped_acquire held;
        delete unit;
      }
    };
    with_gil owned{[&] {
      nb::gil_scoped_acquire held;
      return new python_unit(f, formats, stop);
    }()};
    return identify_unit(*owned.unit, {.seed = seed, .verification_cases = check, .report = [&](std::string_view) { stop.check(); }});
  });
  return answer_of(r);
}

nb::list fit_forward(call_arguments const& call, array_of<std::uint16_t> const& o, std::optional<array_of<std::uint32_t>> const& lse) {
  const attention_problem p = problem_of(call);
  const captured_forward captured{codes_of<bf16_code>(o), lse ? codes_of<f32_code>(*lse) : std::vector<f32_code>{}};
  nb::list all;
  for (named_fit const& f : interruptible(false, [&](stop_request const&) { return fit_named_schedules(p, captured); }))
    all.append(nb::make_tuple(f.schedule, f.mismatches, f.total, f.first));
  return all;
}

}  // namespace

void bind_identify(nb::module_& m) {
  m.def("identify_function", &identify_function, "function"_a, "a"_a, "b"_a, "c"_a, "output"_a, "k"_a, "seed"_a, "check"_a);
  m.def("fit_forward", &fit_forward, "call"_a, "o"_a, "lse"_a.none());
}

}  // namespace stickybit::python
