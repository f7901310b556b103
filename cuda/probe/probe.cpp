#include "probe.hpp"

#include <bit>
#include <stdexcept>

namespace stickybit::gpu {

std::uint64_t code_of_number(case_format const& f, double value) {
  if (std::isnan(value)) return f.code(std::signbit(value), f.all_ones());
  if (std::isinf(value)) return f.infinity(std::signbit(value));
  if (value == 0) return f.code(std::signbit(value), 0);
  int e = 0;
  const double fraction = std::frexp(std::fabs(value), &e) * 2;  // in [1, 2)
  const auto bits = std::bit_cast<std::uint64_t>(fraction) & ((std::uint64_t{1} << 52) - 1);
  const std::uint64_t code = f.number(std::signbit(value), e - 1, bits >> (52 - f.fraction_bits));
  const std::uint64_t magnitude = f.magnitude_of(code);
  const double back = magnitude >= f.hidden_bit() ? std::ldexp(double((magnitude & (f.hidden_bit() - 1)) | f.hidden_bit()), f.exponent_of(code) - f.fraction_bits)
                                                  : std::ldexp(double(magnitude), f.e_lowest());
  if (back != std::fabs(value)) throw std::logic_error("a probe's number is not in its format");
  return code;
}

hardware_way const& way_of(std::string_view unit, std::string_view form) {
  static const std::vector<hardware_way> all = hardware_ways();
  for (hardware_way const& way : all)
    if (way.unit == unit && (form.empty() ? way.main : way.instruction.ends_with(form))) return way;
  throw std::out_of_range("no instruction for " + std::string(unit) + " " + std::string(form));
}

namespace {
case_shape shape_of_way(hardware_way const& way) { return {way.a, way.b, way.output, way.k, way.k, 25, -133, way.output.fraction_bits}; }
}  // namespace

std::vector<std::uint64_t> results_of(hardware_way const& way, std::vector<unit_case> const& cases, call_options options) {
  if (cases.empty()) return {};
  packed_cases packed(shape_of_way(way), cases.size(), cases[0].size);
  for (std::size_t i = 0; i < cases.size(); ++i) packed.put(i, cases[i]);
  return way.results(packed, options);
}

std::uint64_t result_of(hardware_way const& way, unit_case const& x, call_options options) { return results_of(way, {x}, options)[0]; }

unit_case case_of(hardware_way const& way, std::initializer_list<factor_pair> products, double c, int instructions) {
  unit_case x;
  x.size = way.k * instructions;
  for (factor_pair const& p : products) {
    x.a.at(std::size_t(p.k)) = code_of_number(way.a, p.a);
    x.b.at(std::size_t(p.k)) = code_of_number(way.b, p.b);
  }
  x.c = code_of_number(way.output, c);
  if (way.output == f16_format) x.c = widen_f16(x.c);
  return x;
}

std::string hex_result(hardware_way const& way, std::uint64_t code) { return hex_code(code, way.output.storage_bytes()); }

void try_on(findings& found, std::initializer_list<std::string_view> units, trial const& t, int instructions) {
  for (std::string_view unit : units) {
    hardware_way const& way = way_of(unit);
    const std::uint64_t result = result_of(way, case_of(way, t.products, t.c, instructions));
    const bool stated = result == t.stated;
    found.say(stated, std::string(unit) + ": " + std::string(t.operands) + " gives " + hex_result(way, result) + (stated ? ": " + std::string(t.meaning) : ", not " + hex_result(way, t.stated) + " (" + std::string(t.meaning) + "); " + std::string(t.otherwise)));
  }
}

std::vector<unit_case> random_cases(std::string_view unit, std::initializer_list<std::string_view> generators, std::size_t count) {
  const auto named = find_unit("sm90." + std::string(unit));
  const case_shape shape = named ? shape_of(*named) : shape_of_way(way_of(unit));
  std::vector<unit_case> cases;
  for (std::string_view name : generators)
    for (std::size_t i = 0; i < count; ++i) cases.push_back(make_unit_case(shape, unit_generator_named(name), 1, i));
  return cases;
}

std::size_t differing(std::vector<std::uint64_t> const& x, std::vector<std::uint64_t> const& y) {
  std::size_t n = x.size() == y.size() ? 0 : x.size();
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) n += x[i] != y[i];
  return n;
}

void say_differing(findings& found, bool stated_equal, std::string_view what, std::vector<std::uint64_t> const& x, std::vector<std::uint64_t> const& y) {
  const std::size_t n = differing(x, y);
  found.say((n == 0) == stated_equal, std::string(what) + ": " + std::to_string(n) + " of " + std::to_string(x.size()) + " results differ");
}

std::size_t mismatches_with(hardware_way const& way, machine_unit const& unit, std::vector<unit_case> const& cases) {
  const auto results = results_of(way, cases);
  const packed_cases codes(shape_of_way(way), 0, way.k);
  std::size_t n = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) n += codes.result_code(results[i]) != emulated(unit, cases[i]);
  return n;
}

}  // namespace stickybit::gpu
