#include "stickybit/machine/unit_file.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

namespace stickybit {
namespace {

using json = nlohmann::ordered_json;

struct unit_switch {
  const char* name;
  bool machine_unit::* field;
};
constexpr std::array switches{
    unit_switch{"normalizes_products", &machine_unit::normalizes_products},     unit_switch{"zero_products_in_maximum", &machine_unit::zero_products_in_maximum},
    unit_switch{"zero_c_in_maximum", &machine_unit::zero_c_in_maximum},         unit_switch{"flushes_operands", &machine_unit::flushes_operands},
    unit_switch{"flushes_c", &machine_unit::flushes_c},                         unit_switch{"flushes_results", &machine_unit::flushes_results},
    unit_switch{"shortens_c", &machine_unit::shortens_c},                       unit_switch{"keeps_wide_c", &machine_unit::keeps_wide_c},
    unit_switch{"negative_cancellation", &machine_unit::negative_cancellation}, unit_switch{"keeps_negative_zero", &machine_unit::keeps_negative_zero},
    unit_switch{"keeps_underflow_sign", &machine_unit::keeps_underflow_sign},   unit_switch{"flushes_subnormals", &machine_unit::flushes_subnormals},
    unit_switch{"converts_to_f16", &machine_unit::converts_to_f16},
};

struct number {
  const char* name;
  int machine_unit::* field;
  int lowest, highest;
};
constexpr std::array numbers{
    number{"block_size", &machine_unit::block_size, 1, 32},
    number{"instruction_k", &machine_unit::instruction_k, 1, 255},
    number{"alignment_fraction_bits", &machine_unit::alignment_fraction_bits, 0, 50},
    number{"min_alignment_exponent", &machine_unit::min_alignment_exponent, -1100, 200},
    number{"output_fraction_bits", &machine_unit::output_fraction_bits, 0, 52},
    number{"sum_fraction_bits", &machine_unit::sum_fraction_bits, 0, 50},
};

template <class T>
constexpr std::array<T, 0> values{};
template <>
constexpr std::array values<rounding>{rounding::nearest_even, rounding::toward_zero, rounding::toward_positive, rounding::toward_negative, rounding::nearest_away, rounding::to_odd};
template <>
constexpr std::array values<accumulator_place>{accumulator_place::aligned, accumulator_place::added_last};
template <>
constexpr std::array values<product_order>{product_order::ascending, product_order::pairs, product_order::even_odd};
template <>
constexpr std::array values<block_arithmetic>{block_arithmetic::aligned_sum, block_arithmetic::exact_sum, block_arithmetic::rounded_tree, block_arithmetic::two_stage_sum};
template <>
constexpr std::array values<block_join>{block_join::chain, block_join::sequential, block_join::tree};
template <>
constexpr std::array values<overflow>{overflow::by_mode, overflow::to_infinity, overflow::saturate};

std::string_view name_of_overflow(overflow o) { return o == overflow::by_mode ? "by_mode" : o == overflow::to_infinity ? "to_infinity" : "saturate"; }
template <class T>
std::string_view text_of(T value) {
  if constexpr (std::is_same_v<T, overflow>) return name_of_overflow(value);
  else return name_of(value);
}

/// Reads one file's members; names what is wrong.
class reader {
 public:
  reader(json const& object, std::string const& path) : object_(object), path_(path) {}

  [[noreturn]] void refuse(std::string_view member, std::string_view expected) const { throw unit_file_error(fmt::format("{}: {}: expected {}", path_, member, expected)); }

  json const* find(const char* name) {
    known_.insert(name);
    const auto at = object_.find(name);
    return at == object_.end() ? nullptr : &*at;
  }
  json const& require(const char* name, std::string_view expected) {
    json const* found = find(name);
    if (found == nullptr) refuse(name, expected);
    return *found;
  }
  template <class T>
  void take(const char* name, T& to) {
    json const* found = find(name);
    if (found == nullptr) return;
    std::string expected;
    for (T value : values<T>) {
      if (*found == std::string(text_of(value))) {
        to = value;
        return;
      }
      expected += fmt::format("{}{}", expected.empty() ? "one of " : ", ", text_of(value));
    }
    refuse(name, expected);
  }
  void take(number const& n, machine_unit& unit, bool required) {
    const std::string expected = fmt::format("a whole number from {} to {}", n.lowest, n.highest);
    json const* found = required ? &require(n.name, expected) : find(n.name);
    if (found == nullptr) return;
    const bool whole = found->is_number_integer();
    const auto value = whole ? found->get<std::int64_t>() : std::numeric_limits<std::int64_t>::min();
    if (value < n.lowest || value > n.highest) refuse(n.name, expected);
    unit.*n.field = int(value);
  }
  void take(const char* name, format& to, bool required) {
    json const* found = required ? &require(name, "a format") : find(name);
    if (found == nullptr) return;
    if (!found->is_string()) refuse(name, "a format's name");
    const std::optional<format> f = format_named(found->get<std::string>());
    if (!f) refuse(name, "one of bf16, f16, tf32, f32, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e3m2, e2m3, e2m1");
    to = *f;
  }
  /// A misspelt member would silently mean its default.
  void refuse_unknown() const {
    for (auto const& [name, value] : object_.items())
      if (!known_.contains(name)) refuse(name, "no such member");
  }

 private:
  json const& object_;
  std::string path_;
  std::set<std::string> known_;
};

void read_permutation(reader& from, owned_unit& to) {
  json const* found = from.find("permutation");
  if (found == nullptr) return;
  if (!found->is_array()) from.refuse("permutation", "a list of places, -1 for none");
  for (json const& k : *found) {
    const auto value = k.is_number_integer() ? k.get<std::int64_t>() : std::int64_t{-2};
    if (value < -1 || value >= to.unit.instruction_k) from.refuse("permutation", "places from -1 to instruction_k - 1");
    to.permutation.push_back(value == -1 ? no_product : std::uint8_t(value));
  }
  if (to.permutation.empty() || to.permutation.size() % std::size_t(to.unit.block_size) != 0) from.refuse("permutation", "whole blocks of block_size places");
}

void read_rules(reader& from, machine_unit& unit) {
  from.take("output_rounding", unit.output_rounding);
  from.take("accumulator", unit.accumulator);
  from.take("order", unit.order);
  from.take("arithmetic", unit.arithmetic);
  from.take("join", unit.join);
  from.take("addition_rounding", unit.addition_rounding);
  from.take("alignment_rounding", unit.alignment_rounding);
  from.take("tf32_rounding", unit.tf32_rounding);
  from.take("overflow", unit.beyond);
  for (unit_switch const& f : switches)
    if (json const* found = from.find(f.name)) {
      if (!found->is_boolean()) from.refuse(f.name, "true or false");
      unit.*f.field = found->get<bool>();
    }
  if (json const* found = from.find("nan")) {
    if (!found->is_string()) from.refuse("nan", "an FP32 code such as \"0x7fffffff\"");
    std::size_t used = 0;
    try {
      unit.nan_bits = std::uint32_t(std::stoul(found->get<std::string>(), &used, 16));
    } catch (std::exception const&) {
      used = 0;
    }
    if (used == 0 || !f32_code::from_bits(unit.nan_bits).is_nan()) from.refuse("nan", "the FP32 code of a NaN, such as \"0x7fffffff\"");
  }
}

machine_unit blank_unit() {
  return {.name = {}, .instruction = {}, .input = format::bf16, .output = format::f32, .block_size = 1, .alignment_fraction_bits = 0, .min_alignment_exponent = -1100,
          .output_rounding = rounding::toward_zero, .accumulator = accumulator_place::aligned, .facts = {}};
}

void require_sense(reader const& from, machine_unit const& unit) {
  if (unit.output != format::f32 && unit.output != format::f16) from.refuse("output", "f32 or f16");
  if (unit.permutation.empty() && unit.instruction_k % unit.block_size != 0) from.refuse("instruction_k", "a multiple of block_size, or a permutation");
  if (unit.join != block_join::chain && unit.instruction_k / unit.block_size > 64) from.refuse("join", "at most 64 blocks");
  if (unit.order == product_order::pairs && (unit.instruction_k != 2 * unit.block_size || unit.block_size % 2 != 0)) from.refuse("order", "two blocks of an even size");
}

}  // namespace

std::optional<format> format_named(std::string_view name) noexcept {
  for (format f : all_formats)
    if (traits_of(f).name == name) return f;
  return name == traits_of(format::f64).name ? std::optional(format::f64) : std::nullopt;
}

std::shared_ptr<owned_unit const> parse_unit(std::string_view text, std::string const& path) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) throw unit_file_error(fmt::format("{}: expected a JSON object that describes a unit", path));
  reader from(object, path);
  auto made = std::make_shared<owned_unit>(owned_unit{path, {}, {}, blank_unit()});
  machine_unit& unit = made->unit;
  if (json const& kind = from.require("stickybit", "\"unit 1\""); kind != "unit 1") from.refuse("stickybit", "\"unit 1\"");
  if (json const* name = from.find("name"); name != nullptr && name->is_string()) made->instruction = name->get<std::string>();
  from.take("input", unit.input, true);
  unit.input_b = unit.input;
  from.take("input_b", unit.input_b, false);
  from.take("output", unit.output, true);
  for (number const& n : numbers) from.take(n, unit, n.field == &machine_unit::block_size || n.field == &machine_unit::instruction_k || n.field == &machine_unit::alignment_fraction_bits);
  read_rules(from, unit);
  read_permutation(from, *made);
  unit.permutation = made->permutation;
  from.refuse_unknown();
  require_sense(from, unit);
  unit.name = made->name;
  unit.instruction = made->instruction;
  return made;
}

machine_unit const& unit_from_file(std::string const& path) {
  static std::mutex guard;
  static std::map<std::string, std::shared_ptr<owned_unit const>> loaded;
  const std::lock_guard lock(guard);
  if (const auto found = loaded.find(path); found != loaded.end()) return found->second->unit;
  std::ifstream file(path);
  if (!file) throw unit_file_error(fmt::format("{}: cannot be read: expected a unit's JSON file", path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto made = std::make_shared<owned_unit>(*parse_unit(text, path));
  made->name = "@" + path;
  made->unit.name = made->name;
  made->unit.instruction = made->instruction;
  made->unit.permutation = made->permutation;
  return loaded.emplace(path, std::move(made)).first->second->unit;
}

std::string unit_json(machine_unit const& unit, std::string_view name) {
  json object{{"stickybit", "unit 1"}, {"name", std::string(name)}, {"input", std::string(traits_of(unit.input).name)}};
  if (unit.input_b != unit.input) object["input_b"] = std::string(traits_of(unit.input_b).name);
  object["output"] = std::string(traits_of(unit.output).name);
  for (number const& n : numbers)
    if (n.field != &machine_unit::sum_fraction_bits || unit.sum_fraction_bits != 0) object[n.name] = unit.*n.field;
  const machine_unit usual = blank_unit();
  const auto put = [&](const char* member, auto value, auto standard, bool always = false) {
    if (always || value != standard) object[member] = std::string(text_of(value));
  };
  put("output_rounding", unit.output_rounding, usual.output_rounding, true);
  put("accumulator", unit.accumulator, usual.accumulator, true);
  put("order", unit.order, usual.order);
  put("arithmetic", unit.arithmetic, usual.arithmetic);
  put("join", unit.join, usual.join);
  put("addition_rounding", unit.addition_rounding, usual.addition_rounding);
  put("alignment_rounding", unit.alignment_rounding, usual.alignment_rounding);
  put("tf32_rounding", unit.tf32_rounding, usual.tf32_rounding);
  put("overflow", unit.beyond, usual.beyond);
  for (unit_switch const& f : switches)
    if (unit.*f.field) object[f.name] = true;
  if (unit.nan_bits != usual.nan_bits) object["nan"] = fmt::format("0x{:08x}", unit.nan_bits);
  if (!unit.permutation.empty()) {
    json places = json::array();
    for (std::uint8_t k : unit.permutation) places.push_back(k == no_product ? -1 : int(k));
    object["permutation"] = places;
  }
  return object.dump(2) + "\n";
}

}  // namespace stickybit
