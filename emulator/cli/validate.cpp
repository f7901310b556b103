#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "stickybit/identify/validate.hpp"

namespace stickybit::cli {
namespace {

struct validate_request {
  std::string file;
  attention_options attention;  // overrides only
  bool allow_skips = false, nan_bits = false;
};

int run_validate(validate_request const& o) {
  const tensor_file file = tensor_file::load(o.file);
  terminal_progress bar("validate");
  validate_options how;
  if (!o.attention.unit.empty()) how.unit = o.attention.unit;
  how.problem = o.attention.overrides();
  how.nan_bits = o.nan_bits;
  how.how = engine_named(o.attention.engine_name);
  how.report = bar.report();
  const std::vector<verdict> verdicts = validate(file, how);

  std::int64_t mismatches = 0, total = 0, skipped = 0;
  verdict const* earliest = nullptr;
  for (verdict const& v : verdicts) {
    if (!v.skipped.empty()) {
      fmt::print("{}: skipped ({})\n", v.tensor, v.skipped);
      ++skipped;
      continue;
    }
    fmt::print("{}: {} mismatches of {}{}{}\n", v.tensor, v.mismatches, v.total, v.note.empty() ? "" : fmt::format(" ({})", v.note),
               v.first.empty() ? "" : fmt::format(", {}", v.first));
    mismatches += v.mismatches;
    total += v.total;
    if (v.mismatches != 0 && (earliest == nullptr || v.place < earliest->place)) earliest = &v;
  }
  if (earliest != nullptr) fmt::print("earliest tensor that differs: {}\n", earliest->tensor);
  fmt::print("TOTAL: {} mismatches of {}\n", mismatches, total);
  return mismatches == 0 && total != 0 && (skipped == 0 || o.allow_skips) ? 0 : 1;
}

}  // namespace

void add_validate(CLI::App& program, int& status) {
  auto o = std::make_shared<validate_request>();
  CLI::App* command = program.add_subcommand("validate", "emulate every result that the file holds, and compare code by code");
  command->add_option("FILE", o->file, "safetensors file: an attention call, a matrix product, or inner products, with a GPU's results")->required();
  command->add_flag("--allow-skips", o->allow_skips, "a result that cannot be emulated is no failure");
  command->add_flag("--nan-bits", o->nan_bits, "NaN must have the same sign and payload");
  command->add_option("--unit", o->attention.unit, "for products: instead of the unit that the metadata names");
  o->attention.add_overrides(*command);
  add_engine(*command, o->attention.engine_name);
  command->callback([o, &status] { status = run_validate(*o); });
}

}  // namespace stickybit::cli
