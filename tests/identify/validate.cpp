// validate: recorded files have 0 mismatches, and one changed bit is found, named and placed.
#include "stickybit/identify/validate.hpp"

#include <map>

#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

verdict const& of(std::vector<verdict> const& verdicts, std::string const& tensor) {
  const auto found = std::ranges::find(verdicts, tensor, &verdict::tensor);
  REQUIRE(found != verdicts.end());
  return *found;
}

/// The file with the lowest bit of one element of one tensor changed.
tensor_file flipped(tensor_file const& file, std::string const& name, std::size_t byte) {
  tensor_file changed(file.name());
  changed.metadata = file.metadata;
  for (named_tensor t : file.tensors()) {
    if (t.name == name) t.value.bytes.at(byte) ^= std::byte{1};
    changed.add(t.name, t.value);
  }
  return changed;
}

}  // namespace

TEST_CASE("validate: a recorded attention call, and what it skips", "[identify][golden]") {
  const tensor_file file = golden("gauss_s64_d128_c1.safetensors");
  const auto verdicts = validate(file);
  CHECK(verdicts.size() == file.tensors().size() - 4);  // all but q, k, v, do
  CHECK(of(verdicts, "fa3.o").mismatches == 0);
  CHECK(of(verdicts, "fa3.o").total == 64 * 2 * 128);
  CHECK(of(verdicts, "fa3.lse").mismatches == 0);
  for (const char* result : {"fa3.delta", "fa3.lse_log2", "fa3.dq", "fa3.dk", "fa3.dv", "fa2_torch.dq", "fa2_torch.dk", "fa2_torch.dv"}) {
    CHECK(of(verdicts, result).mismatches == 0);
    CHECK(of(verdicts, result).total > 0);
  }
  for (const char* producer : {"fa2_torch", "fa2_torch_splitkv", "cudnn"})
    for (const char* result : {".o", ".lse"}) {
      CHECK(of(verdicts, std::string(producer) + result).mismatches == 0);
      CHECK(of(verdicts, std::string(producer) + result).total > 0);
    }
  tensor_file other("other");
  for (named_tensor const& t : file.tensors())
    if (t.name.find('.') == t.name.npos) other.add(t.name, t.value);
  other.add("fa9.o", *file.find("fa3.o"));
  CHECK_THAT(of(validate(other), "fa9.o").skipped, Contains("no schedule 'fa9'"));
}

TEST_CASE("validate: every kernel in every recorded attention call", "[identify][golden]") {
  std::map<std::string, std::int64_t> compared;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200")) {
    if (entry.path().extension() != ".safetensors") continue;
    const tensor_file file = tensor_file::load(entry.path());
    if (file.find("q") == nullptr) continue;
    INFO(entry.path().filename().string());
    for (verdict const& v : validate(file)) {
      INFO(v.tensor << " " << v.first);
      CHECK(v.mismatches == 0);
      if (v.total != 0) compared[v.tensor.substr(0, v.tensor.find('.'))] += v.total;
    }
  }
  for (const char* producer : {"fa3", "fa2_torch", "fa2_torch_splitkv", "cudnn", "efficient", "flex", "triton_m64_n64", "triton_m64_n32", "triton_m128_n64", "eager_bf16"}) {
    INFO(producer);
    CHECK(compared[producer] > 16000);
  }
}

TEST_CASE("validate: one changed bit is found, with its place and both codes", "[identify][golden]") {
  const tensor_file file = golden("gauss_s64_d128_c1.safetensors");
  const std::size_t element = (5 * 2 + 1) * 128 + 17;  // row 5, head 1, column 17
  const auto verdicts = validate(flipped(file, "fa3.o", 2 * element));
  CHECK(of(verdicts, "fa3.o").mismatches == 1);
  CHECK_THAT(of(verdicts, "fa3.o").first, Contains("first at [5, 1, 17]: captured 0x") && Contains("emulated 0x"));
  CHECK(of(verdicts, "fa3.lse").mismatches == 0);
  CHECK(of(verdicts, "fa3.lse").place < of(verdicts, "fa3.o").place);
}

TEST_CASE("validate: a causal call taken as not causal does not match", "[identify][golden]") {
  validate_options options;
  options.problem.causal = false;
  const auto verdicts = validate(golden("gauss_s64_d128_c1.safetensors"), options);
  CHECK(of(verdicts, "fa3.o").mismatches > 10000);
  CHECK_THAT(of(verdicts, "fa3.delta").skipped, Contains("padded to [2, 64], expected [2, 80]"));
}

TEST_CASE("validate: a recorded matrix product, and the number of slices that fits", "[identify][golden]") {
  const tensor_file file = golden("gemm_128_128_64.safetensors");
  const auto verdicts = validate(file);
  REQUIRE(verdicts.size() == 2);
  for (verdict const& v : verdicts) {
    CHECK(v.mismatches == 0);
    CHECK(v.total == 128 * 128);
    CHECK(v.note == "split-k 1");
  }
  CHECK(of(validate(flipped(file, "torch.d_f32", 0)), "torch.d_f32").mismatches == 1);
  CHECK_THAT(of(validate(flipped(file, "torch.d_f32", 0)), "torch.d_f32").note, Contains("no split of K"));
}

TEST_CASE("validate: recorded inner products of both instructions", "[identify][golden]") {
  for (const char* name : {"inner_products_mma.safetensors", "inner_products_wgmma.safetensors"}) {
    const auto verdicts = validate(golden(name));
    const verdict& d = of(verdicts, "d");
    INFO(name);
    CHECK(d.mismatches == 0);
    CHECK(d.total > 2000);
    CHECK_THAT(d.note, Contains("sm90."));
  }
}

TEST_CASE("validate: every captured product and published vector that we have a unit for", "[identify][captures]") {
  std::int64_t compared = 0, files = 0;
  for (const char* folder : {"h200", "published"})
    for (auto const& path : captures(folder)) {
      const tensor_file file = tensor_file::load(path);
      if (file.find("q") != nullptr) continue;
      INFO(path.filename().string());
      for (verdict const& v : validate(file)) {
        CHECK(v.mismatches == 0);
        compared += v.total;
        files += v.total != 0;
      }
    }
  std::cout << "products: " << compared << " codes compared\n";
  const bool present = std::filesystem::is_directory(STICKYBIT_CAPTURES_DIR);
  CHECK((!present || files >= 10));  // 4 products of two outputs each, 2 files of inner products
}

TEST_CASE("validate: published FP8 vectors of Hopper's wgmma and of Ada, every bit", "[identify][captures]") {
  const std::map<std::string, std::string> units{{"H100_E4M3_fp32.safetensors", "sm90.wgmma.e4m3.f32"}, {"H200_E4M3_fp32.safetensors", "sm90.wgmma.e4m3.f32"},
                                                 {"H200_E5M2_fp32.safetensors", "sm90.wgmma.e5m2.f32"}, {"Ada_E4M3_fp32.safetensors", "sm89.mma.e4m3.f32"},
                                                 {"Ada_E5M2_fp32.safetensors", "sm89.mma.e5m2.f32"}};
  std::size_t files = 0;
  for (auto const& path : captures("published")) {
    const auto unit = units.find(path.filename().string());
    if (unit == units.end()) continue;
    const tensor_file file = tensor_file::load(path);
    const auto verdicts = validate(file);
    verdict const& d = of(verdicts, "d");
    INFO(unit->first);
    CHECK(d.note == unit->second);
    CHECK(d.total == 5000);
    CHECK(d.mismatches == 0);
    validate_options bf16;
    bf16.unit = "sm90.wgmma.bf16.f32";  // FP8 numbers are numbers of BF16: another unit would not do
    CHECK(of(validate(file, bf16), "d").mismatches > 100);
    ++files;
  }
  const bool present = std::filesystem::is_directory(STICKYBIT_CAPTURES_DIR);
  CHECK((!present || files == units.size()));
}

TEST_CASE("validate: inner products with FP8 operands, in their own type and as FP32", "[identify]") {
  // 1 + 2^-13 + 2^-14 in c and two zero products; 448·1 twice.
  const auto make = [](bool wide, std::uint32_t last) {
    tensor_file file("fp8.safetensors");
    file.metadata = {{"unit", "sm90.wgmma.e4m3.f32"}};
    for (const char* name : {"a", "b"}) {
      const bool a = name[0] == 'a';
      if (wide) file.add(name, make_tensor<std::uint32_t>(dtype::f32, {2, 2}, std::vector<std::uint32_t>{0, 0, a ? 0x43e00000u : 0x3f800000u, a ? last : 0x3f800000u}));
      else file.add(name, make_tensor<std::uint8_t>(dtype::f8_e4m3, {2, 2}, std::vector<std::uint8_t>{0, 0, std::uint8_t(a ? 0x7e : 0x38), std::uint8_t(a ? 0x7e : 0x38)}));
    }
    file.add("c", make_tensor<std::uint32_t>(dtype::f32, {2}, std::vector<std::uint32_t>{0x3f800600, 0}));
    file.add("d", make_tensor<std::uint32_t>(dtype::f32, {2}, std::vector<std::uint32_t>{0x3f800400, 0x44600000}));
    return file;
  };
  for (bool wide : {false, true}) {
    const tensor_file file = make(wide, 0x43e00000);
    CHECK(of(validate(file), "d").mismatches == 0);
    CHECK(of(validate(file), "d").total == 2);
    CHECK(of(validate(flipped(file, "d", 1)), "d").mismatches == 1);
  }
  CHECK_THROWS_WITH(validate(make(true, 0x43e10000)), Contains("'a'") && Contains("E4M3 holds exactly") && Contains("0x43E10000"));  // 450
}

TEST_CASE("validate: split-K of a captured product is three slices, by its FP32 output", "[identify][captures]") {
  for (auto const& path : captures("h200"))
    if (path.filename() == "gemm_64_64_4096.safetensors") {
      const auto verdicts = validate(tensor_file::load(path));
      CHECK(of(verdicts, "torch.d_f32").note == "split-k 3");
      CHECK_THAT(of(verdicts, "torch.d_bf16").note, Contains("3"));
    }
}

TEST_CASE("validate: a file that is nothing we know is refused", "[identify]") {
  tensor_file file("weights.safetensors");
  file.add("w", make_tensor<std::uint16_t>(dtype::bf16, {1}, std::vector<std::uint16_t>{0}));
  CHECK_THROWS_WITH(validate(file), Contains("weights.safetensors") && Contains("q, k, v"));
  tensor_file products("products.safetensors");
  products.add("a", make_tensor<std::uint32_t>(dtype::f32, {1, 1}, std::vector<std::uint32_t>{0x3f800001}));
  products.add("b", make_tensor<std::uint32_t>(dtype::f32, {1, 1}, std::vector<std::uint32_t>{0x3f800000}));
  CHECK_THROWS_WITH(validate(products), Contains("'a'") && Contains("BF16 holds exactly") && Contains("0x3F800001"));
}
