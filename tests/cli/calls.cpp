// The contract's calls: what they print and how they end.
#include <nlohmann/json.hpp>

#include <fstream>

#include "cli/command.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

const std::string goldens = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/";

std::string quoted(std::string const& path) { return "'" + path + "'"; }

struct command_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string path(std::string const& name) { return (folder / name).string(); }
};

}  // namespace

TEST_CASE_METHOD(command_fixture, "command: validate a recorded call, in one line a tensor", "[cli][golden]") {
  const outcome r = run("validate " + quoted(goldens + "gauss_s64_d128_c1.safetensors"));
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("fa3.o: 0 mismatches of 16384\n") && Contains("fa3.lse: 0 mismatches of 128\n") && Contains("fa3.dq: 0 mismatches of 16384\n") &&
                           Contains("fa3.delta: 0 mismatches of 128\n") && Catch::Matchers::EndsWith("TOTAL: 0 mismatches of 164608\n"));
  CHECK(r.error.empty());
  // What cannot be emulated is a failure unless allowed.
  tensor_file other = tensor_file::load(goldens + "gauss_s64_d128_c1.safetensors");
  other.add("unknown.o", *other.find("fa3.o"));
  other.save(path("other.safetensors"));
  const outcome skips = run("validate " + quoted(path("other.safetensors"))), allowed = run("validate --allow-skips " + quoted(path("other.safetensors")));
  CHECK(skips.status == 1);
  CHECK(allowed.status == 0);
  CHECK_THAT(allowed.output, Contains("unknown.o: skipped (") && Catch::Matchers::EndsWith("TOTAL: 0 mismatches of 164608\n"));
}

TEST_CASE_METHOD(command_fixture, "command: attention writes what compare finds equal to the capture", "[cli][golden]") {
  const outcome written = run("attention " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --schedule fa3 -o " + quoted(path("out.safetensors")));
  CHECK(written.status == 0);
  CHECK_THAT(written.output, Contains("o: BF16 [64, 2, 128]") && Contains("lse: F32 [2, 64]"));
  const tensor_file out = tensor_file::load(path("out.safetensors"));
  CHECK(out.metadata.at("schedule") == "fa3");
  CHECK(out.metadata.at("unit") == "sm90.wgmma.bf16.f32");
  CHECK(out.metadata.at("fix") == "none");
  CHECK(!out.metadata.at("stickybit").empty());
  const outcome same = run("compare " + quoted(path("out.safetensors") + ":o") + " " + quoted(goldens + "gauss_s64_d128_c1.safetensors:fa3.o"));
  CHECK(same.status == 0);
  CHECK_THAT(same.output, Contains("o: 0 mismatches of 16384\nTOTAL: 0 mismatches of 16384\n"));
  // By prefix, what only one side holds is a skip.
  const outcome prefix = run("compare " + quoted(path("out.safetensors")) + " " + quoted(goldens + "gauss_s64_d128_c1.safetensors:fa3"));
  CHECK(prefix.status == 1);
  CHECK_THAT(prefix.output, Contains("lse: 0 mismatches of 128") && Contains("dq: skipped (only on the right)"));
  const outcome other = run("compare " + quoted(path("out.safetensors") + ":o") + " " + quoted(goldens + "gauss_s64_d128_c1.safetensors:cudnn.o"));
  CHECK_THAT(other.output, Contains("sign test p = ") && Contains("first at ["));
  CHECK(other.status == 1);
}

TEST_CASE_METHOD(command_fixture, "command: gemm writes the recorded product", "[cli][golden]") {
  CHECK(run("gemm " + quoted(goldens + "gemm_128_128_64.safetensors") + " -o " + quoted(path("d.safetensors"))).status == 0);
  const outcome same = run("compare " + quoted(path("d.safetensors")) + " " + quoted(goldens + "gemm_128_128_64.safetensors:torch"));
  CHECK(same.status == 0);
  CHECK_THAT(same.output, Contains("TOTAL: 0 mismatches of 32768\n"));
}

TEST_CASE_METHOD(command_fixture, "command: gemm and validate take FP8, TF32, mixed and MX units", "[cli]") {
  const auto f32 = [](std::int64_t rows, std::int64_t columns, std::uint32_t first, std::uint32_t step) {
    std::vector<f32_code> codes;  // powers of two and halves between, by their codes
    for (std::int64_t i = 0; i < rows * columns; ++i) codes.push_back(f32_code::from_bits((first + std::uint32_t(i) * step % 0x02000000) & 0xffe00000));
    return make_tensor<f32_code>(dtype::f32, {rows, columns}, codes);
  };
  const auto f8 = [](std::int64_t rows, std::int64_t columns) {
    std::vector<std::byte> codes;
    for (std::int64_t i = 0; i < rows * columns; ++i) codes.push_back(std::byte(i * 37 % 0x78));
    return tensor{dtype::f8_e4m3, {rows, columns}, codes};
  };
  const auto check = [&](std::string const& unit, tensor_file file, std::string const& other) {
    file.save(path("in.safetensors"));
    REQUIRE(run("gemm " + quoted(path("in.safetensors")) + " --unit " + unit + " -o " + quoted(path("d.safetensors"))).status == 0);
    const tensor_file d = tensor_file::load(path("d.safetensors"));
    CHECK(d.metadata.at("unit") == unit);
    file.add("d_f32", d.require("d_f32", dtype::f32));
    file.save(path("with_d.safetensors"));
    INFO(unit);
    CHECK_THAT(run("validate --unit " + unit + " " + quoted(path("with_d.safetensors"))).output, Contains("d_f32: 0 mismatches of 15"));
    CHECK(run("validate --unit " + other + " " + quoted(path("with_d.safetensors"))).status == 1);
    file.metadata["unit"] = unit;  // named by the file
    file.save(path("named.safetensors"));
    CHECK(run("validate " + quoted(path("named.safetensors"))).status == 0);
  };
  tensor_file fp8, tf32, mixed, mx;
  fp8.add("a", f8(5, 100));
  fp8.add("b", f8(3, 100));
  check("sm90.wgmma.e4m3.f32", fp8, "sm90.mma.e4m3.f32");
  check("sm90.mma.e4m3.f32", fp8, "sm90.wgmma.e4m3.f16");
  tf32.add("a", f32(5, 100, 0x3f800000, 0x00200001));
  tf32.add("b", f32(3, 100, 0x3c800000, 0x00a00001));
  check("sm90.wgmma.tf32.f32", tf32, "sm70.mma.f16.f16");
  mixed.add("a", f8(5, 100));
  mixed.add("b", f32(3, 100, 0x3f800000, 0x00200000));
  check("sm90.wgmma.e4m3xe5m2.f32", mixed, "sm90.mma.e4m3xe5m2.f16");
  mx = mixed;
  std::vector<f32_code> scales;
  for (std::uint32_t i = 0; i < 20; ++i) scales.push_back(f32_code::from_bits((120 + i % 9) << 23));
  mx.add("scale_a", make_tensor<f32_code>(dtype::f32, {5, 4}, scales));
  mx.add("scale_b", make_tensor<f32_code>(dtype::f32, {3, 4}, std::vector<f32_code>(scales.begin(), scales.begin() + 12)));
  check("sm120.mma.mxe4m3xe5m2.f32", mx, "sm90.wgmma.e4m3xe5m2.f32");
}

TEST_CASE_METHOD(command_fixture, "command: models in words and as JSON", "[cli]") {
  CHECK_THAT(run("models").output, Contains("sm90.wgmma.bf16.f32") && Contains("schedule fa3") && Contains("measured"));
  const auto models = nlohmann::json::parse(run("models --json").output);
  REQUIRE(models["machines"].size() == 11);
  CHECK(models["machines"][2]["units"][0]["name"] == "sm80.mma.bf16.f32");
  CHECK(models["machines"][2]["units"][0]["alignment_fraction_bits"] == 24);
  CHECK(models["machines"][2]["units"][0]["block_size"] == 8);
  CHECK(models["machines"][2]["units"][0]["instruction_k"] == 16);
  CHECK(models["schedules"][0]["name"] == "fa3");
  CHECK(models["schedules"][0]["facts"].size() > 5);
}

TEST_CASE_METHOD(command_fixture, "command: docs/models.md is what models --markdown prints", "[cli]") {
  std::ifstream in(std::string(STICKYBIT_DOCS_DIR) + "/models.md");
  std::string page{std::istreambuf_iterator<char>(in), {}};
  CHECK(run("models --markdown").output == page);
}

TEST_CASE_METHOD(command_fixture, "command: explain dot on TF32, on mixed FP8 and where c is added last", "[cli]") {
  // 1·1 on TF32, whose low 13 bits go.
  CHECK_THAT(run("explain dot --unit sm90.mma.tf32.f32 --a 0x3f801fff --b 1 --level screen").output, Contains("0x3F800000"));
  // 448·57344, E4M3 by E5M2.
  CHECK_THAT(run("explain dot --unit sm90.wgmma.e4m3xe5m2.f32 --a 448 --b 57344").output, Contains("25690112"));
  const outcome last = run("explain dot --unit sm90.mma.e5m2.f32 --a 0,0,32768,-32768 --b 0,0,32768,32768 --c 1 --level screen");
  CHECK(last.status == 0);
  CHECK_THAT(last.output, Contains("0x3F800000"));
  const outcome other = run("explain dot --diff sm90.mma.e5m2.f32 sm90.wgmma.e5m2.f32 --a 0,0,32768,-32768 --b 0,0,32768,32768 --c 1");
  CHECK(other.status == 1);
  CHECK(run("explain dot --unit cdna3.mfma.bf16.f32 --a 1 --b 1").status == 2);
}

TEST_CASE_METHOD(command_fixture, "command: bias as text and as JSON", "[cli][golden]") {
  const outcome r = run("bias " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --schedule fa3 --json " + quoted(path("bias.json")));
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("mean signed error") && Contains("by column") && Contains("most biased rows"));
  std::ifstream in(path("bias.json"));
  const auto o = nlohmann::json::parse(in)["tensors"]["o"];
  for (const char* key : {"mean_signed_error_ulp", "standard_error_ulp", "rms_error_ulp", "median_relative_error", "rows_left_out"}) CHECK(o.contains(key));
  CHECK(o["columns"].size() == 256);
  CHECK(o["counted"] == 64 * 2 * 128);
}

TEST_CASE_METHOD(command_fixture, "command: bias by rounding point", "[cli][golden]") {
  const outcome r = run("bias " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --schedule fa3 --attribute --json " + quoted(path("bias.json")));
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("by rounding point") && Contains("p_cast") && Contains("o_cast"));
  std::ifstream in(path("bias.json"));
  const auto o = nlohmann::json::parse(in)["tensors"]["o"];
  double sum = 0;
  for (auto const& point : o["attribution"]) {
    sum += point["mean_signed_error_ulp"].get<double>();
    for (const char* key : {"rounding_point", "rms_error_ulp", "alone_mean_signed_error_ulp", "without_mean_signed_error_ulp"}) CHECK(point.contains(key));
  }
  CHECK(sum == Approx(o["mean_signed_error_ulp"].get<double>()).margin(1e-9));
}

TEST_CASE_METHOD(command_fixture, "command: identify names the schedule", "[cli][golden]") {
  const outcome r = run("identify attention " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --producer fa3 --no-search");
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("fa3                0 mismatches of 16512"));
  const outcome none = run("identify attention " + quoted(goldens + "gemm_128_128_64.safetensors"));
  CHECK(none.status == 2);
}

TEST_CASE_METHOD(command_fixture, "command: explain add, dot, attention", "[cli][golden]") {
  const outcome add = run("explain add --format bf16 -2.40625 -0.0008654594421386719 -2.296875");
  CHECK(add.status == 0);
  CHECK_THAT(add.output, Contains("The result is -4.71875 (bf16 0xC097)") && Contains("round bit 1, sticky bit 1") && !Contains("\x1b["));
  const outcome dot = run("explain dot --unit sm90.wgmma.bf16.f32 --a 0x3f80,0x3300 --b 0x3f80,0x3f80 --c 0");
  CHECK(dot.status == 0);
  CHECK_THAT(dot.output, Contains("quantum 2^-25"));
  const outcome eight_bit = run("explain dot --unit sm90.wgmma.e4m3.f32 --a 1,1,0x04 --b 1,1,0x08");  // 1 + 1 + 2^-13
  CHECK(eight_bit.status == 0);
  CHECK_THAT(eight_bit.output, Contains("32 products and c") && Contains("quantum 2^-13: the sum is 16385 quanta") && Contains("results of this unit have 13 fraction bits, toward_zero: 1 is lost"));
  CHECK_THAT(eight_bit.output, Contains("d is 2 (f32 0x40000000). Had nothing been rounded it would be 2.0001220703125") && Contains("fraction bits that the unit gives are kept"));
  const outcome attention = run("explain attention " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --schedule fa3 --tensor o --at 1,63,127");
  CHECK(attention.status == 0);
  CHECK_THAT(attention.output, Contains("O[head 1, row 63, column 127]"));
  CHECK(run("explain add 0x3f800000 0x1p-3 0xff800000").status == 0);
}

TEST_CASE_METHOD(command_fixture, "command: explain fma, cast, exp2, gemm, two units, levels and colour", "[cli][golden]") {
  const outcome fma = run("explain fma --format bf16 1.75 0.578125 -0x1p-40");
  CHECK(fma.status == 0);
  CHECK_THAT(fma.output, Contains("The result is 1.0078125 (bf16 0x3F81)") && Contains("1.015625  0x3F82"));
  CHECK_THAT(run("explain cast 0.3 --format e4m3fn --rounding toward_positive --level paragraph").output, Contains("toward +infinity, and something is cut: grows"));
  CHECK_THAT(run("explain exp2 -3.3 --function expf").output, Contains("0x3D1712CF"));
  const std::string file = quoted(goldens + "gemm_128_128_64.safetensors");
  const outcome gemm = run("explain gemm " + file + " --at 3,4");
  CHECK(gemm.status == 0);
  CHECK_THAT(gemm.output, Contains("recorded torch.d_f32: 0xBFF68C18, the same code"));
  const outcome other = run("explain gemm " + file + " --at 3,4 --unit sm80.mma.bf16.f32 --level everything");
  CHECK_THAT(other.output, Contains("ANOTHER CODE"));
  CHECK(other.status == 1);
  CHECK(run("explain gemm " + file + " --at 128,4").status == 2);
  CHECK(run("explain gemm " + file + " --at 3").status == 2);
  const std::string terms = " --a 1,0x1p-25,0x1p-25,0x1p-25,0x1p-25 --b 1,1,1,1,1";
  const outcome parted = run("explain dot --diff sm80.mma.bf16.f32 sm90.mma.bf16.f32" + terms);
  CHECK(parted.status == 1);
  CHECK_THAT(parted.output, Contains("terms 1, 2, 3 and 1 more are lost altogether"));
  CHECK(run("explain dot --diff sm90.wgmma.bf16.f32 sm90.mma.bf16.f32" + terms).status == 0);
  CHECK(run("explain dot --diff sm90.wgmma.bf16.f32 sm90.mma.f16.f32" + terms).status == 2);
  CHECK(run("explain dot --diff sm90.wgmma.bf16.f32" + terms).status == 2);
  CHECK(run("explain add 1 2 --level most").status == 2);
  CHECK_THAT(run("explain add 0.1 2 --color always").output, Contains("\x1b["));
  CHECK_THAT(run("explain add 0.1 2 --level paragraph").output, !Contains("\n\n"));
}
