#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <bit>
#include <cmath>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/format/with_format.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/convert.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

constexpr std::size_t short_array = 100'000;  ///< elements: a few milliseconds
constexpr std::size_t between_checks = 4096;

nb::dict format_facts(format f) {
  constexpr auto special = [](special_codes s) {
    switch (s) {
      case special_codes::ieee: return "ieee";
      case special_codes::nan_all_ones: return "nan_all_ones";
      case special_codes::nan_negative_zero: return "nan_negative_zero";
      case special_codes::none: return "none";
    }
    return "";
  };
  const format_traits t = traits_of(f);
  nb::dict d;
  d["name"] = nb::str(t.name.data(), t.name.size());
  d["width_bits"] = t.width_bits;
  d["exponent_bits"] = t.exponent_bits;
  d["fraction_bits"] = t.fraction_bits();
  d["padding_bits"] = t.padding_bits;
  d["precision"] = t.precision();
  d["bias"] = t.bias();
  d["e_min"] = t.e_min();
  d["e_max"] = t.e_max();
  d["is_signed"] = t.is_signed;
  d["has_zero"] = t.has_zero;
  d["has_subnormals"] = t.has_subnormals();
  d["has_infinity"] = t.has_infinity();
  d["has_nan"] = t.has_nan();
  d["special_codes"] = special(t.special);
  with_format(f, [&]<format F>() {
    d["largest"] = to_double(code<F>::largest());
    d["smallest"] = to_double(code<F>::from_magnitude(t.has_zero ? 1 : 0));
    d["code_bytes"] = sizeof(typename code<F>::bits_type);
  });
  return d;
}

std::vector<double> values(array_of<std::uint32_t> const& codes, format f) {
  std::vector<double> out(codes.size());
  with_format(f, [&]<format F>() {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_double(code_from<F>(codes.data()[i]));
  });
  return out;
}

std::uint8_t bits_of(flags f) { return std::uint8_t(f.inexact | f.underflow << 1 | f.overflow << 2 | f.invalid << 3 | f.divide_by_zero << 4); }

/// A double rounded once to F, as convert() rounds the codes that there are.
template <format F, class Sink>
code<F> round_double(double x, rounding_rule rule, Sink& sink) {
  if (std::isnan(x)) return convert<F>(f32_code::nan(), rule, sink);
  if (std::isinf(x)) return convert<F>(f32_code::infinity(x < 0), rule, sink);
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);
  return round_pack<F>(rule, std::signbit(x), exponent - 53, std::uint64_t(std::ldexp(fraction, 53)), sink);
}

rounding_rule rule_from(std::string const& mode, std::string const& beyond, bool flush) {
  const overflow o = named(std::array{overflow::by_mode, overflow::to_infinity, overflow::saturate},
                           [](overflow v) { return v == overflow::by_mode ? "by_mode" : v == overflow::to_infinity ? "to_infinity" : "saturate"; }, beyond, "overflow");
  return {.mode = rounding_by_name(mode), .subnormal = flush ? subnormals::flushed : subnormals::kept, .beyond = o};
}

nb::tuple round_array(array_of<double> x, std::string const& to, std::string const& mode, std::string const& beyond, bool flush, std::optional<array_of<std::uint32_t>> random,
                      int random_bits) {
  const format f = format_by_name(to);
  const rounding_rule rule = rule_from(mode, beyond, flush);
  std::vector<std::uint32_t> codes(x.size());
  std::vector<std::uint8_t> raised(x.size());
  interruptible(x.size() < short_array, [&](stop_request const& stop) {
    with_format(f, [&]<format F>() {
      for (std::size_t i = 0; i < codes.size(); ++i) {
        if (i % between_checks == 0) stop.check();
        rounding_rule one = rule;
        if (random) one.random = {random->data()[i], random_bits};
        flag_sink sink;
        codes[i] = round_double<F>(x.data()[i], one, sink).to_bits();
        raised[i] = bits_of(sink.raised);
      }
    });
  });
  return nb::make_tuple(numpy_of<std::uint32_t>(std::move(codes)), numpy_of<std::uint8_t>(std::move(raised)));
}

template <format F>
void arithmetic_of(std::string const& op, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, std::span<std::uint32_t const> c, rounding_rule rule,
                   std::vector<std::uint32_t>& out, std::vector<std::uint8_t>& raised, stop_request const& stop) {
  const auto each = [&](auto&& f) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % between_checks == 0) stop.check();
      flag_sink sink;
      out[i] = f(i, sink).to_bits();
      raised[i] = bits_of(sink.raised);
    }
  };
  const auto x = [&](std::size_t i) { return code_from<F>(a[i]); };
  const auto y = [&](std::size_t i) { return code_from<F>(b[i]); };
  if (op == "add") each([&](std::size_t i, flag_sink& s) { return add(x(i), y(i), rule, s); });
  else if (op == "sub") each([&](std::size_t i, flag_sink& s) { return sub(x(i), y(i), rule, s); });
  else if (op == "mul") each([&](std::size_t i, flag_sink& s) { return mul(x(i), y(i), rule, s); });
  else if (op == "div") each([&](std::size_t i, flag_sink& s) { return div(x(i), y(i), rule, s); });
  else if (op == "fma") each([&](std::size_t i, flag_sink& s) { return fma(x(i), y(i), code_from<F>(c[i]), rule, s); });
  else throw std::invalid_argument(fmt::format("operation: expected add, sub, mul, div or fma, found '{}'", op));
}

nb::tuple arithmetic(std::string const& op, std::string const& name, array_of<std::uint32_t> a, array_of<std::uint32_t> b, array_of<std::uint32_t> c, std::string const& mode, bool flush) {
  const format f = format_by_name(name);
  const rounding_rule rule = rule_from(mode, "by_mode", flush);
  if (rule.mode == rounding::stochastic) throw std::invalid_argument("mode: expected a mode without random bits, found 'stochastic'");
  std::vector<std::uint32_t> out(a.size());
  std::vector<std::uint8_t> raised(a.size());
  interruptible(a.size() < short_array, [&](stop_request const& stop) {
    switch (f) {
      case format::bf16: return arithmetic_of<format::bf16>(op, span_of(a), span_of(b), span_of(c), rule, out, raised, stop);
      case format::f16: return arithmetic_of<format::f16>(op, span_of(a), span_of(b), span_of(c), rule, out, raised, stop);
      case format::f32: return arithmetic_of<format::f32>(op, span_of(a), span_of(b), span_of(c), rule, out, raised, stop);
      default: throw std::invalid_argument(fmt::format("format: expected 'f32', 'bf16' or 'f16', found '{}'", name));
    }
  });
  return nb::make_tuple(numpy_of<std::uint32_t>(std::move(out)), numpy_of<std::uint8_t>(std::move(raised)));
}

nb::object special_function(std::string const& name, array_of<std::uint32_t> x) {
  special_function_tables const& tables = *sm90().special_functions;
  using function = f32_code (*)(special_function_tables const&, f32_code);
  struct entry {
    std::string_view name;
    function f;
  };
  static constexpr std::array all{
      entry{"ex2", [](special_function_tables const& t, f32_code v) { return ex2(t, v); }},
      entry{"rcp", [](special_function_tables const& t, f32_code v) { return rcp(t, v); }},
      entry{"rsqrt", [](special_function_tables const& t, f32_code v) { return rsqrt(t, v); }},
      entry{"lg2", [](special_function_tables const& t, f32_code v) { return lg2(t, v); }},
      entry{"exp2f", [](special_function_tables const& t, f32_code v) { return exp2_keeping_subnormals(t, v); }},
      entry{"expf", [](special_function_tables const& t, f32_code v) { return cuda_expf(t, v); }},
      entry{"logf", [](special_function_tables const&, f32_code v) { return cuda_logf(v); }},
      entry{"log2f", [](special_function_tables const&, f32_code v) { return cuda_log2f(v); }}};
  const function f = named(all, [](entry const& e) { return e.name; }, name, "function").f;
  std::vector<std::uint32_t> out(x.size());
  interruptible(x.size() < short_array, [&](stop_request const& stop) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % between_checks == 0) stop.check();
      out[i] = f(tables, f32_code::from_bits(x.data()[i])).to_bits();
    }
  });
  return numpy_of<std::uint32_t>(std::move(out));
}

}  // namespace

void bind_formats(nb::module_& m) {
  m.def("format_table", [] {
    nb::list all;
    for (format f : all_formats) all.append(format_facts(f));
    return all;
  });
  m.def("values", [](array_of<std::uint32_t> codes, std::string const& f) { return numpy_of<double>(values(codes, format_by_name(f))); }, "codes"_a, "format"_a);
  m.def("ulps", [](array_of<double> x, std::string const& f) {
    std::vector<double> out(x.size());
    with_format(format_by_name(f), [&]<format F>() {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = ulp_at<F>(x.data()[i]);
    });
    return numpy_of<double>(std::move(out));
  }, "x"_a, "format"_a);
  m.def("decode", [](std::uint32_t bits, std::string const& f) {
    return with_format(format_by_name(f), [&]<format F>() {
      const decoded d = decode(code_from<F>(bits));
      const std::string_view kind = name_of(d.kind);
      return nb::make_tuple(nb::str(kind.data(), kind.size()), d.negative, d.e, d.significand);
    });
  }, "code"_a, "format"_a);
  m.def("texts", [](std::uint32_t bits, std::string const& f) {
    return with_format(format_by_name(f), [&]<format F>() {
      const code<F> c = code_from<F>(bits);
      nb::dict d;
      d["hex_code"] = hex_code(c);
      d["fields"] = fields(c);
      d["decimal"] = decimal(c);
      d["exact_decimal"] = exact_decimal(c);
      d["hex_float"] = hex_float(c);
      d["binary"] = binary(c);
      return d;
    });
  }, "code"_a, "format"_a);
  m.def("parse", [](std::string const& text, std::string const& f) {
    return with_format(format_by_name(f), [&]<format F>() { return std::uint32_t{parse<F>(text).to_bits()}; });
  }, "text"_a, "format"_a);
  m.def("round", &round_array, "x"_a, "format"_a, "mode"_a, "overflow"_a, "flush"_a, "random"_a.none(), "random_bits"_a);
  m.def("arithmetic", &arithmetic, "operation"_a, "format"_a, "a"_a, "b"_a, "c"_a, "mode"_a, "flush"_a);
  m.def("special_function", &special_function, "name"_a, "x"_a);
}

}  // namespace stickybit::python
