// `identify unit` as a user calls it: what it prints, what it writes, and what its status says.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;

namespace {

bool holds(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

struct called : temporary_folder {
  outcome operator()(std::string const& words) { return run_command("identify unit " + words, file("error")); }
  std::string file(const char* name) { return (path() / name).string(); }
};

}  // namespace

TEST_CASE("identify unit: a known unit has status 0, its proofs, and a file that computes the same", "[cli]") {
  called command;
  const std::string file = command.file("unit.json"), report = command.file("report.json");
  const outcome first = command("--unit sm80.mma.bf16.f32 -o " + file + " --json " + report);
  CHECK(first.status == 0);
  CHECK(holds(first.output, "sm80.mma.bf16.f32"));
  CHECK(holds(first.output, "2: k = 0-7, then 8-15"));
  CHECK(holds(first.output, "E is at least -132"));
  CHECK(holds(first.output, "would give"));
  const auto json = nlohmann::json::parse(std::ifstream(report));
  CHECK(json.at("description").at("alignment_fraction_bits") == 24);
  CHECK(json.at("probes").get<int>() > 500);
  const outcome again = command("--unit @" + file);
  CHECK(again.status == 0);
  CHECK(holds(again.output, "sm80.mma.bf16.f32"));
}

TEST_CASE("identify unit: an unknown unit has status 1 and its description; usage and files are status 2 with one line", "[cli]") {
  called command;
  const std::string file = command.file("unit.json");
  std::ofstream(file) << R"({"stickybit": "unit 1", "input": "bf16", "output": "f32", "block_size": 6, "instruction_k": 12, "alignment_fraction_bits": 21})";
  const outcome found = command("--unit @" + file);
  CHECK(found.status == 1);
  CHECK(holds(found.output, "known units that fit: none"));
  CHECK(holds(found.output, "\"block_size\": 6"));
  const auto refused = [&](std::string const& words, std::string const& part) {
    const outcome o = command(words);
    INFO(words << ": " << o.error);
    CHECK(o.status == 2);
    CHECK(holds(o.error, part));
    CHECK(std::count(o.error.begin(), o.error.end(), '\n') == 1);
  };
  refused("", "expected one of --unit, --library, --program and --recorded");
  refused("--unit sm90.none", "unknown unit");
  refused("--unit @/no/such/file", "cannot be read");
  refused("--unit sm120.mma.mxf4.f32", "takes scales");
  refused("--program 'exit 3'", "status 3");
  refused("--library /no/such.so", "cannot open");
  std::ofstream(file) << R"({"stickybit": "unit 1", "input": "bf16", "output": "f32", "block_size": 6, "instruction_k": 12, "alignment_fraction_bit": 21})";
  refused("--unit @" + file, "alignment_fraction_bits: expected a whole number");
}
