// Has the comparison teeth? Each rule of each kernel, replaced by its nearest neighbours, must give other codes than an H200 did.
#include <fmt/format.h>

#include <functional>

#include "stickybit/attention/forward.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

struct variant {
  const char* name;
  std::function<void(forward_rules&)> change;
  bool between_blocks = false;  ///< shows only where a row, or a part of split keys, has several blocks
};

struct captured_call {
  std::string name;
  attention_problem problem;
  std::vector<bf16_code> o;
  std::vector<f32_code> lse;
};

std::string producer_of(attention_schedule const& schedule) {
  std::string name(schedule.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The calls in which the schedule's kernel was recorded.
std::vector<captured_call> calls_of(attention_schedule const& schedule, std::vector<std::filesystem::path> const& files) {
  std::vector<captured_call> calls;
  const std::string producer = producer_of(schedule);
  for (auto const& path : files) {
    const tensor_file file = tensor_file::load(path);
    if (file.find(producer + ".o") == nullptr) continue;
    captured_call call{path.filename().string(), read_problem(file), {}, {}};
    call.problem.call_heads = whole_number(file, producer + ".heads", call.problem.heads);
    call.o = file.require(producer + ".o", dtype::bf16).elements<bf16_code>();
    call.lse = file.require(producer + ".lse", dtype::f32).elements<f32_code>();
    calls.push_back(std::move(call));
  }
  return calls;
}

std::int64_t mismatches(attention_schedule const& schedule, std::vector<captured_call> const& calls) {
  std::int64_t n = 0;
  for (captured_call const& call : calls) {
    const forward_result r = attention_forward(schedule, call.problem);
    for (std::size_t i = 0; i < r.o.size(); ++i) n += r.o[i] != call.o[i];
    for (std::size_t i = 0; i < r.lse.size(); ++i) n += r.lse[i] != call.lse[i];
  }
  return n;
}

/// Neighbours of every rule that the kernel's own value is not.
std::vector<variant> neighbours(forward_rules const& own) {
  std::vector<variant> all;
  const auto add = [&](const char* name, auto member, auto value, bool between_blocks = false) {
    if (own.*member != value) all.push_back({name, [member, value](forward_rules& r) { r.*member = value; }, between_blocks});
  };
  add("exponent fused", &forward_rules::exponent, exponent_form::fused);
  add("exponent not fused", &forward_rules::exponent, exponent_form::scaled_difference);
  add("exponent: subtract, then scale", &forward_rules::exponent, exponent_form::difference_scaled);
  add("exponent of scaled scores", &forward_rules::exponent, exponent_form::scaled_scores);
  add("blocks in the other order", &forward_rules::order, own.order == block_order::descending ? block_order::ascending : block_order::descending, true);
  add("row sum: rescale and first addition not fused", &forward_rules::start,
      own.start == sum_start::carried ? sum_start::carried_twice : own.start == sum_start::block ? sum_start::block_twice : sum_start::block_row_twice, true);
  add("row sum: block first", &forward_rules::start, own.start == sum_start::carried ? sum_start::block : sum_start::carried, true);
  add("row sum of the BF16 weights", &forward_rules::summed, sum_of::bf16_weights);
  add("lanes joined in the other order", &forward_rules::join, own.join == lane_join::far_first ? lane_join::near_first : lane_join::far_first);
  add("weights cut, not rounded, to BF16", &forward_rules::weight_cast, rounding::toward_zero);
  add("O rounded before the division", &forward_rules::output, output_form::round_then_divide);
  if (!has_scaled_maximum(own.exponent)) {
    add("rescale factor fused", &forward_rules::rescale, rescale_form::fused, true);
    add("rescale factor from scaled maxima", &forward_rules::rescale, rescale_form::scaled_difference, true);
  }
  return all;
}

void each_neighbour_differs(const char* schedule_name, std::vector<variant> more, std::vector<std::filesystem::path> const& files, bool several_blocks = true) {
  attention_schedule const& own = attention_schedule_named(schedule_name);
  const auto calls = calls_of(own, files);
  REQUIRE(!calls.empty());
  CHECK(mismatches(own, calls) == 0);
  std::vector<variant> all = neighbours(own.rules);
  all.insert(all.end(), more.begin(), more.end());
  for (variant const& v : all) {
    if (v.between_blocks && !several_blocks) continue;
    attention_schedule changed = own;
    v.change(changed.rules);
    const std::int64_t n = mismatches(changed, calls);
    std::cout << fmt::format("{:<18} {:<48} {} mismatches in {} calls\n", schedule_name, v.name, n, calls.size());
    INFO(schedule_name << ", " << v.name);
    CHECK(n > 0);
  }
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const char* name : {"ties_s384_d64_c0", "gauss_s64_d128_c1", "spread_b1_q130_k130_h1x1_d64_c0_scale0.37_spread6.5", "ties_b1_q128_k256_h1x1_d64_c1"})
    files.push_back(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / (std::string(name) + ".safetensors"));
  return files;
}

/// Captured calls that between them show every rule, or none where there are no captures.
std::vector<std::filesystem::path> captured_files() {
  std::vector<std::filesystem::path> files;
  const auto take = [&](const char* folder, std::vector<const char*> const& names) {
    for (auto const& path : captures(folder))
      for (const char* name : names)
        if (path.stem() == name) files.push_back(path);
  };
  take("h200", {"gauss_s384_d128_c0", "gauss_s384_d64_c1", "ties_s384_d128_c0", "smallneg_s384_d64_c0", "hot_s384_d128_c1"});
  take("h200/general", {"scale_b1_q300_k300_h2x2_d64_c0", "tiny_b1_q384_k384_h2x2_d64_c0", "uneq_b1_q150_k400_h2x2_d64_c1", "many_b1_q1100_k1100_h1x1_d128_c0"});
  return files;
}

const variant ieee{"correctly rounded 1/sum", [](forward_rules& r) { r.inverse = inverse_form::ieee; }};
const variant mufu{"1/sum by MUFU", [](forward_rules& r) { r.inverse = inverse_form::mufu; }};
const variant kept{"subnormals kept", [](forward_rules& r) { r.scalars = subnormals::kept; }};
const variant flushed{"subnormals flushed", [](forward_rules& r) { r.scalars = subnormals::flushed; }};
const variant lse_by_scale{"lse by the scale", [](forward_rules& r) { r.lse = lse_form::scale_times_max; }};
const variant lse_by_base2{"lse by L ln 2", [](forward_rules& r) { r.lse = lse_form::base2_times_max; }};
const variant lse_twice{"lse: product and addition rounded apart", [](forward_rules& r) { r.lse = lse_form::scaled_max_twice; }};

}  // namespace

TEST_CASE("wrong variants: fa3, on captures", "[attention][captures][teeth]") {
  const auto files = captured_files();
  if (!files.empty()) each_neighbour_differs("fa3", {ieee, kept, lse_by_scale}, files);
}
TEST_CASE("wrong variants: fa2-torch, on captures", "[attention][captures][teeth]") {
  const auto files = captured_files();
  if (!files.empty()) each_neighbour_differs("fa2-torch", {mufu, flushed, lse_by_base2}, files);
}
TEST_CASE("wrong variants: fa2-torch-splitkv, on captures", "[attention][captures][teeth]") {
  const auto files = captured_files();
  if (!files.empty()) each_neighbour_differs("fa2-torch-splitkv", {flushed, lse_by_base2}, files, false);  // each part is one block in these calls
}
TEST_CASE("wrong variants: cudnn, on captures", "[attention][captures][teeth]") {
  const auto files = captured_files();
  if (!files.empty()) each_neighbour_differs("cudnn", {ieee, kept, lse_twice}, files);
}
TEST_CASE("wrong variants: cudnn, on recorded calls", "[attention][golden][teeth]") { each_neighbour_differs("cudnn", {lse_twice}, golden_files()); }
TEST_CASE("wrong variants: efficient, on recorded calls", "[attention][golden][teeth]") {
  each_neighbour_differs("efficient", {{"lse: product for quotient", [](forward_rules& r) { r.lse = lse_form::scaled_max_logf; }}}, golden_files());
}
TEST_CASE("wrong variants: triton, on recorded calls", "[attention][golden][teeth]") {
  each_neighbour_differs("triton-m64-n64", {{"one exponent form", [](forward_rules& r) { r.unmasked = unmasked_blocks::none; r.exponent = exponent_form::fused_scaled_max; }}},
                         golden_files());
}
TEST_CASE("wrong variants: fa3, on recorded calls", "[attention][golden][teeth]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const auto calls = calls_of(fa3, golden_files());
  for (variant const& v : neighbours(fa3.rules)) {
    attention_schedule changed = fa3;
    v.change(changed.rules);
    INFO(v.name);
    CHECK(mismatches(changed, calls) > 0);
  }
}
TEST_CASE("wrong variants: other masks and tiles, on recorded calls", "[attention][golden][teeth]") {
  for (const char* name : {"fa3", "fa2-torch", "cudnn", "efficient", "flex", "triton-m64-n64"}) {
    attention_schedule const& own = attention_schedule_named(name);
    const auto calls = calls_of(own, golden_files());
    INFO(name);
    CHECK(mismatches(own, calls) == 0);
    attention_schedule mask = own;
    mask.causal_mask = own.causal_mask == mask_alignment::top_left ? mask_alignment::bottom_right : mask_alignment::top_left;
    if (own.name != "fa3") CHECK(mismatches(mask, calls) > 1000);  // fa3 was not recorded with unequal lengths here
    std::vector<attention_tile> narrow(own.forward_tiles.begin(), own.forward_tiles.end());
    for (attention_tile& t : narrow) t.key_columns /= 2;
    attention_schedule halved = own;
    halved.forward_tiles = narrow;
    CHECK(mismatches(halved, calls) > 100);
  }
}
