// What recorded inner products say about the unit, and what they leave open.
#include <algorithm>
#include <iostream>
#include <map>

#include "stickybit/identify/identify_unit.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

bool has(std::vector<std::string> const& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

unit_line const& line_of(recorded_identification const& r, std::string_view rule) {
  const auto at = std::ranges::find(r.lines, rule, &unit_line::rule);
  REQUIRE(at != r.lines.end());
  return *at;
}

/// A published file's name to the unit that made it; machines that compute the same have one letter more or less.
std::string unit_of(std::string const& name) {
  const std::string gpu = name.substr(0, name.find('_'));
  std::string input = name.substr(gpu.size() + 1), output = input.substr(input.find('_') + 1);
  input.resize(input.find('_'));
  const std::map<std::string, std::string> machines{{"V100", "sm70"}, {"A100", "sm80"}, {"Ada", "sm89"}, {"H100", "sm90"}, {"H200", "sm90"}, {"B200", "sm100"}};
  const std::map<std::string, std::string> inputs{{"fp16", "f16"}, {"bf16", "bf16"}, {"tf32", "tf32"}, {"E4M3", "e4m3"}, {"E5M2", "e5m2"}};
  const bool wgmma = machines.at(gpu) == "sm90" && input[0] == 'E' && output == "fp32";
  return machines.at(gpu) + (wgmma ? ".wgmma." : ".mma.") + inputs.at(input) + (output == "fp32" ? ".f32" : ".f16");
}

}  // namespace

TEST_CASE("identify unit: recorded H200 inner products leave one unit's rules open in the sign of one zero alone", "[identify][golden]") {
  for (const char* name : {"inner_products_mma.safetensors", "inner_products_wgmma.safetensors"}) {
    const recorded_identification r = identify_recorded_unit(golden(name));
    INFO(name);
    CHECK(has(r.known, "sm90.mma.bf16.f32"));
    CHECK(has(r.known, "sm90.wgmma.bf16.f32"));
    CHECK_FALSE(has(r.known, "sm80.mma.bf16.f32"));
    CHECK(r.points == 2);  // no case has −0 in every term
    CHECK(line_of(r, "all terms -0").also_fits.size() == 1);
    CHECK(line_of(r, "clamp of E").value == "E is at least -133");
    CHECK(line_of(r, "clamp of E").also_fits.empty());
    CHECK(line_of(r, "blocks").value == "one of 16 products");
    CHECK(line_of(r, "fraction bits F").value.find("E-25") != std::string::npos);
  }
}

TEST_CASE("identify unit: every published file fits its unit, and leaves open what hw_vectors says", "[.long][identify][captures]") {
  for (auto const& path : captures("published")) {
    const std::string name = path.stem().string();
    const tensor_file file = tensor_file::load(path);
    INFO(name);
    const recorded_identification r = identify_recorded_unit(file);
    CHECK(has(r.known, unit_of(name)));
    CHECK(r.points >= 1);
    CHECK_FALSE(line_of(r, "clamp of E").also_fits.empty());
    if (name == "H200_bf16_fp32") CHECK(r.points == 1);
    if (name == "H200_E5M2_fp32") CHECK_FALSE(line_of(r, "c").also_fits.empty());
    if (name == "H200_fp16_fp16") CHECK_FALSE(line_of(r, "fraction bits F").also_fits.empty());
    std::cout << name << ": " << r.points << " of " << r.tried << " combinations fit\n";
  }
}
