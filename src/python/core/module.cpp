#include <nanobind/nanobind.h>

#include <array>

#include "bindings.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/identify/unit_probe.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/file_error.hpp"

namespace nb = nanobind;

namespace stickybit::python {

format format_by_name(std::string_view text, std::string_view argument) {
  return named(all_formats, [](format f) { return traits_of(f).name; }, text, argument);
}
rounding rounding_by_name(std::string_view text) {
  static constexpr std::array all{rounding::nearest_even,    rounding::nearest_away, rounding::toward_zero, rounding::toward_positive,
                                  rounding::toward_negative, rounding::to_odd,       rounding::stochastic};
  return named(all, [](rounding r) { return name_of(r); }, text, "mode");
}
engine engine_by_name(std::string_view text) {
  return named(std::array{engine::fast, engine::definition}, [](engine e) { return e == engine::fast ? "fast" : "definition"; }, text, "engine");
}

}  // namespace stickybit::python

NB_MODULE(_core, m) {
  using namespace stickybit;
  m.doc() = "The compiled part of stickybit: arrays of codes in, arrays of codes out. Use the package's functions.";
  m.attr("version") = STICKYBIT_VERSION;
  // Later ones are tried first: what is derived from another comes after it.
  nb::exception<file_error>(m, "FileError", PyExc_ValueError);
  nb::exception<unit_failure>(m, "UnitFailure", PyExc_RuntimeError);
  nb::exception<unknown_name>(m, "UnknownName", PyExc_ValueError);
  nb::exception<unsupported_call>(m, "UnsupportedCall", PyExc_ValueError);
  nb::exception<invalid_fix>(m, "InvalidFix", PyExc_ValueError);
  python::bind_formats(m);
  python::bind_products(m);
  python::bind_attention(m);
  python::bind_explain(m);
  python::bind_files(m);
  python::bind_identify(m);
  python::bind_property(m);
}
