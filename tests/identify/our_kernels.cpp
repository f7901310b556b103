// The calls that our attention kernels computed on an H200 (tests/golden/h200/attention): every code is the emulator's; a changed rule is seen.
#include <functional>
#include <map>
#include <set>

#include "stickybit/attention/backward.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/identify/validate.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

std::vector<tensor_file> recorded_calls() {
  std::vector<std::filesystem::path> paths;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / "attention"))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<tensor_file> files;
  for (auto const& path : paths) files.push_back(tensor_file::load(path));
  return files;
}

std::string metadata(tensor_file const& file, std::string const& name) {
  const auto found = file.metadata.find(name);
  return found == file.metadata.end() ? "" : found->second;
}

template <class Code>
std::int64_t differing(std::vector<Code> const& recorded, std::vector<Code> const& emulated) {
  REQUIRE(recorded.size() == emulated.size());
  std::int64_t n = 0;
  for (std::size_t i = 0; i < emulated.size(); ++i) n += recorded[i] != emulated[i] && !(recorded[i].is_nan() && emulated[i].is_nan());
  return n;
}

/// Elements of O and lse of one producer that a schedule does not give.
std::int64_t differing(tensor_file const& file, std::string const& producer, attention_schedule const& schedule) {
  const forward_result r = attention_forward(schedule, read_problem(file));
  return differing(file.require(producer + ".o", dtype::bf16).elements<bf16_code>(), r.o) + differing(file.require(producer + ".lse", dtype::f32).elements<f32_code>(), r.lse);
}

}  // namespace

TEST_CASE("validate: every call that our kernels computed has 0 mismatches", "[identify][golden]") {
  std::map<std::string, std::int64_t> compared;
  std::set<std::string> regimes, fixes, shapes;
  for (tensor_file const& file : recorded_calls()) {
    INFO(file.name());
    for (verdict const& v : validate(file)) {
      INFO(v.tensor << ": " << v.first << v.skipped);
      CHECK(v.mismatches == 0);
      CHECK(v.skipped.empty());
      compared[v.tensor] += v.total;
    }
    regimes.insert(metadata(file, "regime"));
    fixes.insert(metadata(file, "stickybit_sm80.fix"));
    shapes.insert(std::to_string(file.require("q", dtype::bf16).shape.back()) + metadata(file, "causal"));
    CHECK(metadata(file, "stickybit_sm90.unit") == "sm90.wgmma.bf16.f32");
    CHECK(metadata(file, "stickybit_sm80.unit") == "sm90.mma.bf16.f32");
  }
  for (std::string const result : {"stickybit_sm90.o", "stickybit_sm90.lse", "stickybit_sm90.o_low", "stickybit_sm80.o", "stickybit_sm80.lse", "stickybit_sm80.o_low", "stickybit_sm80.dv",
                                   "stickybit_sm80.dk", "stickybit_sm80.dq"}) {
    INFO(result);
    CHECK(compared[result] > 1000);
    std::cout << result << ": " << compared[result] << " codes compared\n";
  }
  CHECK(regimes == std::set<std::string>{"random", "ties", "tied-maximum", "late", "hot", "one-hot", "large", "negative", "overflow", "infinite", "nan", "subnormal", "faint", "flat"});
  CHECK(shapes == std::set<std::string>{"640", "641", "1280", "1281"});
  for (std::string const fix : {"", "subtract-first", "two-row-sums", "delta-hilo", "beta", "beta:preset=v2", "beta:preset=v4", "subtract-first+beta+two-row-sums+delta-hilo"}) CHECK(fixes.contains(fix));
}

TEST_CASE("our kernels: a schedule with one rule changed does not give the recorded forward results", "[identify][golden]") {
  const std::vector<tensor_file> files = recorded_calls();
  for (std::string const kernel : {"sm90", "sm80"}) {
    const attention_schedule s = attention_schedule_named("stickybit-" + kernel);
    std::vector<attention_tile> halves(s.forward_tiles.begin(), s.forward_tiles.end());
    for (attention_tile& tile : halves) tile.key_columns /= 2;
    std::map<std::string, attention_schedule> changed{{"half the keys in a step", s}, {"ascending blocks", s}, {"subtract first", with_fixes(s, "subtract-first")}, {"lanes joined nearest first", s},
                                                      {"two row sums", with_fixes(s, "two-row-sums")}};
    changed.at("half the keys in a step").forward_tiles = halves;
    changed.at("ascending blocks").rules.order = block_order::ascending;
    changed.at("lanes joined nearest first").rules.join = lane_join::near_first;
    for (auto const& [what, schedule] : changed) {
      std::int64_t mismatches = 0;
      for (tensor_file const& file : files)
        if (metadata(file, "regime") == "random") mismatches += differing(file, "stickybit_" + kernel, schedule);
      INFO("stickybit-" << kernel << ", " << what);
      CHECK(mismatches > 10);
    }
    for (tensor_file const& file : files) {  // a fix that is left out
      const std::string fix = metadata(file, "stickybit_" + kernel + ".fix");
      if (fix.empty() || fix == "delta-hilo" || metadata(file, "regime") == "flat") continue;
      INFO("stickybit-" << kernel << " without " << fix << ", " << file.name());
      CHECK(differing(file, "stickybit_" + kernel, s) > 0);
    }
  }
}

TEST_CASE("our kernels: a schedule with one rule changed does not give the recorded gradients", "[identify][golden]") {
  const attention_schedule s = attention_schedule_named("stickybit-sm80");
  std::vector<attention_tile> halves(s.backward_tiles.begin(), s.backward_tiles.end());
  for (attention_tile& tile : halves) tile.key_columns /= 2;
  using rule = std::pair<std::string, std::function<void(attention_schedule&)>>;
  const std::vector<rule> rules{
      {"half the keys in a part of dQ", [&](attention_schedule& x) { x.backward_tiles = halves; }},
      {"descending parts of dQ", [](attention_schedule& x) { x.backward.dq = dq_sum::descending; }},
      {"the other order of queries", [&](attention_schedule& x) { x.backward.queries = s.backward.queries == query_order::ascending ? query_order::descending : query_order::ascending; }},
      {"dS by two products", [](attention_schedule& x) { x.backward.gradient = score_gradient::difference_of_products; }},
      {"delta from one O", [](attention_schedule& x) { x.backward.delta_from = delta_source::bf16_output; }},
  };
  std::map<std::string, std::int64_t> mismatches;
  for (tensor_file const& file : recorded_calls()) {
    const std::string regime = metadata(file, "regime"), fix = metadata(file, "stickybit_sm80.fix");
    if (regime != "hot" && regime != "late" && regime != "ties") continue;
    const attention_problem problem = read_problem(file);
    const attention_schedule own = with_fixes(s, fix.empty() ? "none" : fix);
    const forward_result forward = attention_forward(own, problem);
    for (auto const& [what, change] : rules) {
      attention_schedule changed = own;
      change(changed);
      const backward_result g = attention_backward(changed, problem, forward, {.how = engine::fast, .report = {}, .scores = {}, .dq_parts = {}, .dq_order = {}});
      mismatches[what] += differing(file.require("stickybit_sm80.dq", dtype::bf16).elements<bf16_code>(), g.dq) + differing(file.require("stickybit_sm80.dk", dtype::bf16).elements<bf16_code>(), g.dk);
    }
  }
  for (auto const& [what, change] : rules) {
    INFO(what);
    CHECK(mismatches[what] > 0);
  }
}
