#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

nb::list facts_of(std::span<fact const> facts) {
  nb::list all;
  for (fact const& f : facts) all.append(nb::make_tuple(text(f.rule), text(name_of(f.mark)), text(f.checked_against)));
  return all;
}

nb::dict unit_facts(machine_unit const& u) {
  nb::dict d;
  d["name"] = text(u.name);
  d["instruction"] = text(u.instruction);
  d["input"] = text(traits_of(u.input).name);
  d["input_b"] = text(traits_of(u.input_b).name);
  d["output"] = text(traits_of(u.output).name);
  d["block_size"] = u.block_size;
  d["instruction_k"] = u.instruction_k;
  d["alignment_fraction_bits"] = u.alignment_fraction_bits;
  d["output_fraction_bits"] = u.output_fraction_bits;
  d["arithmetic"] = text(name_of(u.arithmetic));
  d["accumulator"] = text(name_of(u.accumulator));
  d["scale_block"] = u.scale_block;
  d["scale"] = u.is_scaled() ? nb::object(text(traits_of(u.scale).name)) : nb::none();
  d["facts"] = facts_of(u.facts);
  return d;
}

/// n inner products: rows of a and b [n, K], c [n], scales [n, ⌈K/scale_block⌉].
nb::object dot(std::string const& name, array_of<std::uint64_t> a, array_of<std::uint64_t> b, array_of<std::uint64_t> c, array_of<std::uint64_t> scale_a, array_of<std::uint64_t> scale_b,
               bool one_block) {
  machine_unit const& unit = unit_named(name);
  const std::size_t n = c.size(), k = n == 0 ? 0 : a.size() / n, s = n == 0 ? 0 : scale_a.size() / n;
  std::vector<std::uint64_t> out(n);
  interruptible(a.size() < 20'000, [&](stop_request const& stop) {
    std::vector<std::uint32_t> narrow_a(one_block ? k : 0), narrow_b(narrow_a.size());
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 64 == 0) stop.check();
      const auto row = [&](array_of<std::uint64_t> const& all, std::size_t length) { return span_of(all).subspan(i * length, length); };
      if (one_block) {
        for (std::size_t j = 0; j < k; ++j) {
          narrow_a[j] = std::uint32_t(row(a, k)[j]);
          narrow_b[j] = std::uint32_t(row(b, k)[j]);
        }
        out[i] = block_of_bits(unit, narrow_a, narrow_b, f32_code::from_bits(std::uint32_t(c.data()[i]))).to_bits();
      } else {
        out[i] = evaluate(unit, {row(a, k), row(b, k), row(scale_a, s), row(scale_b, s), c.data()[i]});
      }
    }
  });
  return numpy_of<std::uint64_t>(std::move(out));
}

nb::object gemm_of(std::string const& name, any_array a, any_array b, std::optional<any_array> c, std::optional<any_array> scale_a, std::optional<any_array> scale_b, std::int64_t m,
                   std::int64_t n, std::int64_t k, int slices, std::string const& how) {
  machine_unit const& unit = unit_named(name);
  const engine chosen = engine_by_name(how);
  const auto optional_codes = [](std::optional<any_array> const& x) { return x ? codes_of(*x) : code_array(); };
  const gemm_bits_problem problem{m, n, k, codes_of(a), codes_of(b), optional_codes(c), optional_codes(scale_a), optional_codes(scale_b)};
  const bool is_short = double(m) * double(n) * double(k) < (chosen == engine::fast ? 1e8 : 1e6);
  std::vector<std::uint64_t> d = interruptible(is_short, [&](stop_request const& stop) { return gemm_bits(unit, problem, slices, chosen, stop.report()); });
  const std::vector<std::size_t> shape{std::size_t(m), std::size_t(n)};
  if (unit.output == format::f64) return numpy_of<std::uint64_t>(std::move(d), shape);
  return numpy_of<std::uint32_t>(std::vector<std::uint32_t>(d.begin(), d.end()), shape);
}

}  // namespace

void bind_products(nb::module_& m) {
  m.def("unit_facts", [](std::string const& name) { return unit_facts(unit_named(name)); }, "unit"_a);
  m.def("unit_names", [] {
    nb::list all;
    for (machine const* one : all_machines())
      for (machine_unit const& u : one->units) all.append(text(u.name));
    return all;
  });
  m.def("dot", &dot, "unit"_a, "a"_a, "b"_a, "c"_a, "scale_a"_a, "scale_b"_a, "one_block"_a);
  m.def("gemm", &gemm_of, "unit"_a, "a"_a, "b"_a, "c"_a.none(), "scale_a"_a.none(), "scale_b"_a.none(), "m"_a, "n"_a, "k"_a, "split_k"_a, "engine"_a);
}

}  // namespace stickybit::python
