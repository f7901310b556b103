#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "stickybit/explain/add.hpp"
#include "stickybit/explain/dot.hpp"
#include "stickybit/explain/output.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::cli {
namespace {

void add_explain_add(CLI::App& explain) {
  struct options {
    std::string format = "bf16";
    std::vector<std::string> operands;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("add", "FP32 operands added left to right in FP32, then rounded to --format");
  command->add_option("--format", o->format, "the result's format")->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  command->add_option("OPERANDS", o->operands, "decimal, code (0x3f800000) or hex float (0x1p-3)")->required()->expected(2, 64);
  command->callback([o] {
    std::vector<f32_code> operands;
    for (std::string const& text : o->operands) operands.push_back(parse_f32(text));
    fmt::print("{}", explain_add(operands, o->format == "bf16" ? format::bf16 : format::f32));
  });
}

template <format In>
std::string dot_of(machine_unit const& unit, std::vector<std::string> const& a, std::vector<std::string> const& b, std::string const& c) {
  std::vector<code<In>> codes_a, codes_b;
  for (std::string const& text : a) codes_a.push_back(parse<In>(text));
  for (std::string const& text : b) codes_b.push_back(parse<In>(text));
  return explain_dot<In>(unit, codes_a, codes_b, parse_f32(c));
}

std::string dot_text(machine_unit const& unit, std::vector<std::string> const& a, std::vector<std::string> const& b, std::string const& c) {
  switch (unit.input) {
    case format::f16: return dot_of<format::f16>(unit, a, b, c);
    case format::e4m3fn: return dot_of<format::e4m3fn>(unit, a, b, c);
    case format::e5m2: return dot_of<format::e5m2>(unit, a, b, c);
    default: return dot_of<format::bf16>(unit, a, b, c);
  }
}

void add_explain_dot(CLI::App& explain) {
  struct options {
    std::string unit = "sm90.wgmma.bf16.f32", c = "0";
    std::vector<std::string> a, b;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("dot", "c + a·b on a tensor core, block by block");
  command->add_option("--unit", o->unit, "see `stickybit models`")->capture_default_str();
  command->add_option("--a", o->a, "codes (0x3f80) or numbers of the unit's input format, comma between")->required()->delimiter(',');
  command->add_option("--b", o->b, "as many")->required()->delimiter(',');
  command->add_option("--c", o->c, "the FP32 accumulator")->capture_default_str();
  command->callback([o] {
    machine_unit const& unit = unit_named(o->unit);
    fmt::print("{}", dot_text(unit, o->a, o->b, o->c));
  });
}

std::int64_t parse_index(std::string const& text) {
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::invalid_argument(fmt::format("--at: '{}' is not an index", text));
  return index;
}

void add_explain_attention(CLI::App& explain) {
  struct options {
    attention_options attention;
    std::string tensor = "o";
    std::vector<std::string> at;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = explain.add_subcommand("attention", "one element of an attention call");
  o->attention.add_to(*command);
  command->add_option("--tensor", o->tensor, "which result")->check(CLI::IsMember({"o"}))->capture_default_str();
  command->add_option("--at", o->at, "[BATCH,]HEAD,ROW,COL")->required()->delimiter(',')->expected(3, 4);
  command->callback([o] {
    const attention_problem problem = read_problem(tensor_file::load(o->attention.file), o->attention.overrides());
    std::vector<std::int64_t> at;
    for (std::string const& text : o->at) at.push_back(parse_index(text));
    if (at.size() < 3 || at.size() > 4) throw std::invalid_argument(fmt::format("--at: expected [BATCH,]HEAD,ROW,COL, found {} numbers", at.size()));
    if (at.size() == 3) at.insert(at.begin(), 0);
    fmt::print("{}", explain_output(o->attention.chosen_schedule(), problem, at[0], at[1], at[2], at[3]));
  });
}

}  // namespace

void add_explain(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("explain", "how one result came about, from its inputs to its last bit");
  command->require_subcommand(1);
  add_explain_add(*command);
  add_explain_dot(*command);
  add_explain_attention(*command);
}

}  // namespace stickybit::cli
