#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <numeric>
#include <set>

#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/shape.hpp"
#include "unit_lines.hpp"
#include "unit_search.hpp"

namespace stickybit {
namespace {

using namespace detail;

struct recorded_cases {
  unit_formats formats;
  std::vector<unit_case> cases;
  std::vector<std::uint64_t> results;
};

format recorded_format(tensor_file const& file, std::string const& key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) throw file_error(file.name(), key, "metadata that names a format", "none");
  std::string name = found->second;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (name == "fp16" || name == "fp32") name.erase(1, 1);
  if (name == "e4m3") name = "e4m3fn";
  const std::optional<format> f = format_named(name);
  if (!f || *f == format::f64 || *f == format::e8m0) throw file_error(file.name(), key, "a format of operands", found->second);
  return *f;
}

unit_formats recorded_formats(tensor_file const& file, int k) {
  if (const auto named = file.metadata.find("unit"); named != file.metadata.end())
    for (machine const* m : all_machines())
      for (machine_unit const& u : m->units)
        if (u.name == named->second) return {u.input, u.input_b, format::f32, u.output, k};
  unit_formats f;
  f.a = recorded_format(file, "input_format");
  f.b = file.metadata.contains("input_b_format") ? recorded_format(file, "input_b_format") : f.a;
  f.output = recorded_format(file, "output_format");
  f.k = k;
  return f;
}

recorded_cases read_cases(tensor_file const& file) {
  tensor const* a = file.find("a");
  if (a == nullptr || a->rank() != 2 || a->shape[1] < 1 || a->shape[1] > 64) throw file_error(file.name(), "a", "shape [n, K], K up to 64", a == nullptr ? "none" : shape_text(a->shape));
  const std::int64_t count = a->shape[0], k = a->shape[1];
  recorded_cases r{recorded_formats(file, int(k)), {}, {}};
  if (file.find("b") == nullptr || file.find("b")->shape != a->shape) throw file_error(file.name(), "b", "a's shape, " + shape_text(a->shape), "another");
  const std::vector<std::uint64_t> bits_a = read_operand_bits(file, "a", r.formats.a), bits_b = read_operand_bits(file, "b", r.formats.b);
  const auto instruction = file.metadata.find("instruction");
  const bool without_c = file.find("c") == nullptr || (instruction != file.metadata.end() && instruction->second.find("c = 0") != std::string::npos);
  std::vector<f32_code> c(std::size_t(count), f32_code::zero());
  if (!without_c) c = file.require("c", dtype::f32, {count}).elements<f32_code>();
  for (f32_code d : file.require("d", dtype::f32, {count}).elements<f32_code>()) r.results.push_back(d.to_bits());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto row = [&](std::vector<std::uint64_t> const& m) { return std::vector<std::uint64_t>(m.begin() + i * k, m.begin() + (i + 1) * k); };
    r.cases.push_back({row(bits_a), row(bits_b), c[std::size_t(i)].to_bits()});
  }
  return r;
}

/// Is nothing in the case near an end of a format, so that only the ordinary rules matter?
bool is_ordinary(unit_formats const& f, unit_case const& x, std::uint64_t result) {
  const bool half = f.output == format::f16;
  const int lowest = half ? -1 : -80, highest = half ? 10 : 100, smallest_result = half ? -14 : -126;
  int largest = -1000, largest_zero = -1000;
  const auto see = [&](bool zero, int exponent) { (zero ? largest_zero : largest) = std::max(zero ? largest_zero : largest, exponent); };
  const auto is_plain = [](decoded const& d) { return d.kind == number_class::normal || d.kind == number_class::zero; };
  for (std::size_t k = 0; k < x.a.size(); ++k) {
    const decoded a = decode_bits(f.a, std::uint32_t(x.a[k])), b = decode_bits(f.b, std::uint32_t(x.b[k]));
    if (!is_plain(a) || !is_plain(b)) return false;
    see(a.kind == number_class::zero || b.kind == number_class::zero, a.e + b.e);
  }
  const decoded c = decode_bits(format::f32, std::uint32_t(x.c)), d = decode_bits(format::f32, std::uint32_t(result));
  see(c.kind == number_class::zero, c.e);
  if (!is_plain(c) || d.kind != number_class::normal || d.e < smallest_result || (half && c.kind != number_class::zero && c.e < -14)) return false;
  return largest >= lowest && largest <= highest && largest_zero <= largest;
}

/// The cases that are ordinary, or those that are not.
recorded_cases chosen(recorded_cases const& r, bool ordinary) {
  recorded_cases some{r.formats, {}, {}};
  for (std::size_t i = 0; i < r.cases.size(); ++i) {
    if (is_ordinary(r.formats, r.cases[i], r.results[i]) != ordinary) continue;
    some.cases.push_back(r.cases[i]);
    some.results.push_back(r.results[i]);
  }
  return some;
}

/// One block, consecutive blocks of every size, pairs, even and odd k.
std::vector<machine_unit> usual_blocks(unit_formats const& formats, permutation_store& store) {
  std::vector<machine_unit> bases;
  const machine_unit blank = blank_unit(formats);
  for (int size = std::min(formats.k, 32); size >= 2; --size)
    if (formats.k % size == 0) {
      bases.push_back(blank);
      bases.back().block_size = size;
    }
  if (formats.k % 4 != 0 || formats.k < 8) return bases;
  std::vector<std::vector<int>> pairs(2), even_odd(2);
  for (int k = 0; k < formats.k; ++k) {
    pairs[std::size_t(k % 4 / 2)].push_back(k);
    even_odd[std::size_t(k % 2)].push_back(k);
  }
  bases.push_back(with_blocks(blank, pairs, {0, 1}, store));
  bases.push_back(with_blocks(blank, even_odd, {0, 1}, store));
  return bases;
}

/// The most fraction bits that a normal result has.
int most_fraction_bits(std::vector<std::uint64_t> const& results) {
  int most = 2;
  for (std::uint64_t d : results) {
    const auto fraction = std::uint32_t(d & 0x7fffff);
    const std::uint64_t biased_e = d >> 23 & 0xff;
    if (biased_e != 0 && biased_e != 255 && fraction != 0) most = std::max(most, 23 - std::countr_zero(fraction));
  }
  return most;
}

std::vector<unit_rule> recorded_rules(recorded_cases const& r) {
  std::vector<int> fraction_bits(27);
  std::iota(fraction_bits.begin(), fraction_bits.end(), 10);
  std::vector<unit_rule> rules = ordinary_rules(r.formats, true, fraction_bits);
  const int least = most_fraction_bits(r.results);
  for (unit_rule& rule : rules) {
    if (rule.name == "output precision") std::erase_if(rule.values, [&](int bits) { return bits < least; });
    if (rule.name == "c before it is aligned" && r.formats.output == format::f16) rule.values = {0};  // files hold c as FP16 has it
  }
  return rules;
}

/// Combinations that fit every case: few cases first, then more.
std::vector<machine_unit> fitting_points(recorded_cases const& r, std::vector<machine_unit> const& bases, std::vector<unit_rule> const& rules, std::int64_t& tried) {
  const std::span<unit_case const> cases(r.cases);
  const std::span<std::uint64_t const> results(r.results);
  const std::size_t few = std::min<std::size_t>(48, cases.size());
  std::vector<machine_unit> found = fitting(bases, rules, cases.first(few), results.first(few), agreement::loosely, tried);
  std::erase_if(found, [&](machine_unit const& u) { return u.join != block_join::chain && blocks_in(u).size() == 1; });
  for (const std::size_t more : {std::min<std::size_t>(600, cases.size()), cases.size()})
    std::erase_if(found, [&](machine_unit const& u) { return !fits(u, cases.first(more), results.first(more), agreement::loosely); });
  return found;
}

std::vector<unit_rule> end_rules(unit_formats const& formats) {
  std::vector<unit_rule> rules = small_rules(formats);
  for (auto const& more : {large_rules(), low_bit_rules(formats)}) rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

/// The points with every combination of the rules near the formats' ends, where the usual ones do not fit: of the few points that come first.
std::vector<machine_unit> points_with_ends(recorded_cases const& r, std::vector<machine_unit> points, std::int64_t& tried) {
  constexpr std::size_t most_points = 8, few = 96;
  points.resize(std::min(points.size(), most_points), blank_unit(r.formats));
  const recorded_cases ends = chosen(r, false);
  recorded_cases sample{r.formats, {}, {}};
  for (std::size_t i = 0; i < few && i < ends.cases.size(); ++i) {
    const std::size_t at = i * ends.cases.size() / std::min(few, ends.cases.size());
    sample.cases.push_back(ends.cases[at]);
    sample.results.push_back(ends.results[at]);
  }
  std::vector<machine_unit> found = fitting(points, end_rules(r.formats), sample.cases, sample.results, agreement::exactly, tried);
  std::erase_if(found, [&](machine_unit const& u) { return !fits(u, r.cases, r.results, agreement::exactly); });
  return found;
}

/// For each rule the values of the points that fit, those of `first` first.
std::vector<unit_line> lines_of(std::vector<machine_unit> const& points, std::vector<unit_rule> const& rules) {
  const auto line_of = [&](std::string_view name, auto&& text) {
    unit_line line{std::string(name), text(points[0]), {}, {}};
    std::set<std::string> seen{line.value};
    for (machine_unit const& u : points)
      if (std::string other = text(u); seen.insert(other).second) line.also_fits.push_back(std::move(other));
    return line;
  };
  std::vector<unit_line> lines{line_of("blocks", blocks_text)};
  for (unit_rule const& rule : rules) {
    lines.push_back(line_of(rule.name, rule.text));
    if (!is_numeric(rule)) continue;
    std::set<int> others;
    for (machine_unit const& u : points) others.insert(rule.get(u));
    others.erase(rule.get(points[0]));
    lines.back().also_fits = ranges_of({others.begin(), others.end()});
  }
  return lines;
}

/// The rest of the rules, one changed at a time.
void add_single_changes(recorded_identification& result, recorded_cases const& r, machine_unit unit) {
  for (unit_rule const& rule : end_rules(r.formats)) {
    unit_line line{std::string(rule.name), {}, {}, {}};
    int open = 0;
    std::vector<int> others;
    for (int value : rule.values) {
      rule.set(unit, value);
      if (!fits(unit, r.cases, r.results, agreement::exactly)) continue;
      if (++open == 1) line.value = rule.text(unit);
      else if (!is_numeric(rule)) line.also_fits.push_back(rule.text(unit));
      else others.push_back(value);
    }
    if (is_numeric(rule)) line.also_fits = ranges_of(std::move(others));
    if (open == 0) line.value = "none that fits alone";
    rule.set(unit, rule.values.front());
    result.lines.push_back(std::move(line));
  }
}

}  // namespace

recorded_identification identify_recorded_unit(tensor_file const& file) {
  const recorded_cases r = read_cases(file);
  recorded_identification result;
  result.formats = r.formats;
  result.cases = std::ssize(r.cases);
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      const bool plain = !u.is_scaled() && u.arithmetic != block_arithmetic::grouped_sum && u.output != format::f64;
      if (plain && u.input == r.formats.a && u.input_b == r.formats.b && u.output == r.formats.output && fits(u, r.cases, r.results, agreement::exactly)) result.known.emplace_back(u.name);
    }
  permutation_store store;
  const std::vector<unit_rule> rules = recorded_rules(r);
  std::vector<machine_unit> points = fitting_points(chosen(r, true), usual_blocks(r.formats, store), rules, result.tried);
  const auto unusual = [&](machine_unit const& u) {
    return std::ranges::count_if(rules, [&](unit_rule const& rule) { return !is_numeric(rule) && rule.get(u) != rule.values.front(); });
  };
  std::ranges::stable_sort(points, {}, unusual);
  std::vector<machine_unit> usual_ends = points;
  std::erase_if(usual_ends, [&](machine_unit const& u) { return !fits(u, r.cases, r.results, agreement::exactly); });
  if (!usual_ends.empty()) {
    result.points = std::ssize(usual_ends);
    result.lines = lines_of(usual_ends, rules);
    add_single_changes(result, r, usual_ends[0]);
    return result;
  }
  points = points_with_ends(r, points, result.tried);
  result.points = std::ssize(points);
  if (points.empty()) return result;
  std::vector<unit_rule> all = rules;
  for (unit_rule& rule : end_rules(r.formats)) all.push_back(std::move(rule));
  result.lines = lines_of(points, all);
  return result;
}

}  // namespace stickybit
