#pragma once
#include <nanobind/nanobind.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "stickybit/format/format.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/rounding/round_pack.hpp"

// The module `_core`: one function here binds one folder's worth of the library.

namespace stickybit::python {

void bind_formats(nanobind::module_& m);
void bind_products(nanobind::module_& m);
void bind_attention(nanobind::module_& m);
void bind_explain(nanobind::module_& m);
void bind_files(nanobind::module_& m);
void bind_identify(nanobind::module_& m);
void bind_property(nanobind::module_& m);

/// The one of `all` with this name.  @throws std::invalid_argument "ARGUMENT: expected one of ..., found 'TEXT'"
template <class Values, class Name>
auto named(Values const& all, Name&& name_of_value, std::string_view text, std::string_view argument) {
  std::string known;
  for (auto const& value : all) {
    if (name_of_value(value) == text) return value;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", name_of_value(value));
  }
  throw std::invalid_argument(fmt::format("{}: expected one of {}, found '{}'", argument, known, text));
}

[[nodiscard]] format format_by_name(std::string_view text, std::string_view argument = "format");
[[nodiscard]] rounding rounding_by_name(std::string_view text);
[[nodiscard]] engine engine_by_name(std::string_view text);

}  // namespace stickybit::python
