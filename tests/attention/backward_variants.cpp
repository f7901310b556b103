// Has the comparison of gradients teeth? Each rule of each backward pass, replaced by its nearest neighbours, must give other codes than an
// H200 did. Rules that these calls cannot show are changed in backward_edges.cpp, where the right code is known by hand.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <map>

#include "support/catch.hpp"
#include "support/recorded_gradients.hpp"

using namespace stickybit;

namespace {

struct variant {
  const char* name;
  std::function<void(attention_schedule&)> change;
  bool in_golden = true;  ///< shows in the files of the repository; else only in captures
};

struct call {
  std::string name;
  recorded_gradients gradients;
};

std::vector<call> calls_of(attention_schedule const& schedule, std::vector<std::filesystem::path> const& files) {
  std::vector<call> calls;
  for (auto const& path : files) {
    const tensor_file file = tensor_file::load(path);
    if (recorded_gradients::has(file, schedule)) calls.push_back({path.stem().string(), recorded_gradients(file, schedule)});
  }
  return calls;
}

template <class Member, class Value>
variant rule(const char* name, Member member, Value value, bool in_golden = true) {
  return {name, [=](attention_schedule& s) { s.backward.*member = value; }, in_golden};
}

/// The schedule's tiles with one side changed; the tiles live as long as the program.
variant tiles(const char* name, int attention_tile::*side, std::function<int(int)> const& change, std::span<attention_tile const> own, bool in_golden = true) {
  static std::vector<std::vector<attention_tile>> kept;
  kept.emplace_back(own.begin(), own.end());
  for (attention_tile& t : kept.back()) t.*side = change(t.*side);
  const std::span<attention_tile const> changed = kept.back();
  return {name, [changed](attention_schedule& s) { s.backward_tiles = changed; }, in_golden};
}

std::vector<variant> common_variants(attention_schedule const& own) {
  using r = backward_rules;
  const bool fused = own.backward.weight == weight_form::fused, many_recorded = own.name == "fa2-torch";
  std::vector<variant> all{
      rule(fused ? "exponent not fused" : "exponent fused", &r::weight, fused ? weight_form::scaled_difference : weight_form::fused),
      rule("exponent in natural units", &r::weight, weight_form::natural),
      rule("exponent: subtract, then times log2 e", &r::weight, weight_form::difference_scaled),
      rule("delta summed serially", &r::delta, delta_sum::serial),
      rule("delta by the tensor core", &r::delta, delta_sum::tensor_core),
      rule("delta = rowsum(P dP) / rowsum(P)", &r::delta, delta_sum::weighted_dp),
      rule("delta: other lanes", &r::delta, own.backward.delta == delta_sum::lanes_of_eight ? delta_sum::eight_lanes : delta_sum::lanes_of_eight, own.name == "fa3"),
      rule("dS from the BF16 P", &r::gradient, score_gradient::from_bf16_weights),
      rule("dS = P dP - P delta", &r::gradient, score_gradient::difference_of_products),
      rule("dS = fma(P, dP, -P delta)", &r::gradient, score_gradient::fused_products),
      rule("scale inside dS", &r::scaled, scale_place::score_gradients),
      rule("blocks of queries in the other order", &r::queries, own.backward.queries == query_order::ascending ? query_order::descending : query_order::ascending),
      rule("dQ in the other order", &r::dq, dq_sum::descending),
      rule("dQ one chain", &r::dq, dq_sum::one_chain),
      rule("row mass of dS removed", &r::mass, row_mass::by_weights),
      rule("row mass of dS removed evenly", &r::mass, row_mass::uniform),
      rule("scalars: subnormals the other way", &r::scalars, own.backward.scalars == subnormals::kept ? subnormals::flushed : subnormals::kept, many_recorded),
      rule("additions of dQ: subnormals the other way", &r::dq_additions, own.backward.dq_additions == subnormals::kept ? subnormals::flushed : subnormals::kept, many_recorded),
      rule("group sum the other way", &r::group, own.backward.group == group_sum::fp32_outputs ? group_sum::bf16_outputs : group_sum::fp32_outputs, many_recorded),
      {"mask aligned to the first", [](attention_schedule& s) { s.causal_mask = mask_alignment::top_left; }, many_recorded},
      {"keys smoothed", [](attention_schedule& s) { s.smooths_keys = true; }},
      {"every product in FP32", [](attention_schedule& s) { s.backward_in_fp32 = true; }},
      tiles("key blocks halved", &attention_tile::key_columns, [](int n) { return n / 2; }, own.backward_tiles),
      tiles("key blocks doubled", &attention_tile::key_columns, [](int n) { return n * 2; }, own.backward_tiles),
  };
  return all;
}

std::int64_t mismatches(attention_schedule const& schedule, call const& c) { return c.gradients.compare(schedule).mismatches; }

/// Every variant must differ in some call; the search ends with the first.
void each_variant_differs(attention_schedule const& own, std::vector<variant> const& variants, std::vector<call> const& calls, bool golden_only) {
  REQUIRE(!calls.empty());
  for (call const& c : calls) {
    INFO(own.name << ", " << c.name);
    CHECK(mismatches(own, c) == 0);
  }
  for (variant const& v : variants) {
    if (golden_only && !v.in_golden) continue;
    attention_schedule changed = own;
    v.change(changed);
    std::int64_t n = 0;
    std::string_view where = "no call";
    for (call const& c : calls) {
      if ((n = mismatches(changed, c)) == 0) continue;
      where = c.name;
      break;
    }
    std::cout << fmt::format("{:<10} {:<44} {} mismatches in {}\n", own.name, v.name, n, where);
    INFO(own.name << ", " << v.name);
    CHECK(n > 0);
  }
}

/// Captured calls that between them show every rule, or none where there are no captures.
std::vector<std::filesystem::path> captured_files() {
  std::vector<std::filesystem::path> files;
  const auto take = [&](const char* folder, std::vector<const char*> const& names) {
    const auto found = captures(folder);
    for (const char* name : names)
      for (auto const& path : found)
        if (path.stem() == name) files.push_back(path);
  };
  take("h200/general", {"gqa_b1_q200_k200_h4x2_d64_c1", "tiny_b1_q384_k384_h2x2_d64_c0", "cold_b1_q256_k256_h2x2_d64_c0", "uneq_b1_q150_k400_h2x2_d64_c1", "infk_b1_q256_k256_h2x2_d64_c0"});
  take("h200", {"gauss_s384_d128_c0", "gauss_s384_d64_c1", "late_s384_d128_c0"});
  take("h200/general", {"many_b1_q1100_k1100_h1x1_d64_c1", "many_b1_q1100_k1100_h1x1_d128_c0"});
  return files;
}

std::vector<variant> variants_of(attention_schedule const& own) {
  std::vector<variant> all = common_variants(own);
  if (own.name == "fa3") {
    all.push_back(rule("dQ ascending where causal", &backward_rules::dq, dq_sum::ascending, false));
    all.push_back(tiles("tiles of queries doubled", &attention_tile::query_rows, [](int n) { return n * 2; }, own.backward_tiles));  // padding of delta
  } else {
    // These calls have one buffer of dQ, or one for each block: how more blocks share them is in backward_edges.cpp.
    all.push_back(tiles("tiles of queries halved", &attention_tile::query_rows, [](int n) { return n / 2; }, own.backward_tiles));
  }
  return all;
}

}  // namespace

TEST_CASE("wrong variants backward: on recorded calls", "[attention][golden][teeth]") {
  for (const char* name : {"fa3", "fa2-torch"}) {
    attention_schedule const& own = attention_schedule_named(name);
    each_variant_differs(own, variants_of(own), calls_of(own, recorded_gradients::golden_files(own)), true);
  }
}

TEST_CASE("wrong variants backward: on captures", "[attention][captures][teeth]") {
  const auto files = captured_files();
  if (files.empty()) return;
  for (const char* name : {"fa3", "fa2-torch"}) {
    attention_schedule const& own = attention_schedule_named(name);
    each_variant_differs(own, variants_of(own), calls_of(own, files), false);
  }
}
