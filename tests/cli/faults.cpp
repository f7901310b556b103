// Bad usage and bad files: status 2, one line on standard error that says what, where and what was expected; nothing written.
#include <fstream>
#include <functional>

#include "cli/command.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;

namespace {

const std::string golden_call = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/gauss_s64_d128_c1.safetensors";

/// A safetensors file of this header, and data of this size.
void write_raw(std::filesystem::path const& path, std::string const& header, std::size_t data_bytes, std::uint64_t length) {
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) out.put(char(length >> (8 * i)));
  out << header << std::string(data_bytes, '\0');
}
void write_raw(std::filesystem::path const& path, std::string const& header, std::size_t data_bytes = 0) { write_raw(path, header, data_bytes, header.size()); }

std::string entry(std::string const& name, std::string const& shape, std::string const& offsets, std::string const& dtype = "BF16") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

struct fault {
  std::string name;
  std::vector<std::string> words;  ///< that the line must contain
  std::function<void(std::filesystem::path const&)> make;
};

/// A good call but for one thing.
std::function<void(std::filesystem::path const&)> call_with(std::function<void(tensor_file&)> change) {
  return [change](std::filesystem::path const& path) {
    tensor_file file("call");
    tensor t{dtype::bf16, {4, 2, 64}, std::vector<std::byte>(4 * 2 * 64 * 2)};
    for (const char* name : {"q", "k", "v"}) file.add(name, t);
    change(file);
    file.save(path);
  };
}

std::vector<fault> bad_files() {
  const auto raw = [](std::string header, std::size_t bytes = 0) { return [=](std::filesystem::path const& p) { write_raw(p, header, bytes); }; };
  const std::string q = entry("q", "[1,1,64]", "[0,128]"), k = entry("k", "[1,1,64]", "[128,256]"), v = entry("v", "[1,1,64]", "[256,384]");
  return {
      {"missing file", {"expected"}, [](auto const&) {}},
      {"empty file", {"expected"}, [](auto const& p) { std::ofstream(p, std::ios::binary); }},
      {"a folder", {"folder"}, [](auto const& p) { std::filesystem::create_directory(p); }},
      {"header longer than the file", {"header"}, [](auto const& p) { write_raw(p, "{}", 0, 1000); }},
      {"header over 100 MB", {"header"}, [](auto const& p) { write_raw(p, "{}", 0, 100'000'001); }},
      {"header of 2^63 bytes", {"header"}, [](auto const& p) { write_raw(p, "{}", 0, std::uint64_t{1} << 63); }},
      {"not JSON", {"JSON"}, raw("{\"q\":")},
      {"not an object", {"expected"}, raw("[1,2]")},
      {"deep nesting", {"expected"}, raw("{\"q\":" + std::string(100000, '[') + std::string(100000, ']') + "}")},
      {"duplicate tensor", {"'q'"}, raw("{" + q + "," + entry("q", "[1,1,64]", "[128,256]") + "}", 256)},
      {"duplicate key", {"'q'"}, raw("{\"q\":{\"dtype\":\"BF16\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2]}}", 4)},
      {"offsets outside", {"'q'"}, raw("{" + entry("q", "[1,1,64]", "[0,128]") + "}", 64)},
      {"overlapping", {"'k'"}, raw("{" + q + "," + entry("k", "[1,1,64]", "[64,192]") + "}", 192)},
      {"a hole", {"'k'"}, raw("{" + q + "," + entry("k", "[1,1,64]", "[130,258]") + "}", 258)},
      {"negative size", {"'q'"}, raw("{" + entry("q", "[-1,1,64]", "[0,128]") + "}", 128)},
      {"overflowing sizes", {"'q'"}, raw("{" + entry("q", "[4294967296,4294967296,4294967296]", "[0,128]") + "}", 128)},
      {"bytes that belong to nothing", {"expected"}, raw("{" + q + "," + k + "," + v + "}", 400)},
      {"missing tensor", {"'v'"}, [](auto const& p) { write_raw(p, "{" + entry("q", "[1,1,64]", "[0,128]") + "," + entry("k", "[1,1,64]", "[128,256]") + "}", 256); }},
      {"wrong dtype", {"'q'", "BF16", "F16"}, raw("{" + entry("q", "[1,1,64]", "[0,128]", "F16") + "," + k + "," + v + "}", 384)},
      {"wrong rank", {"'q'", "[1, 64]"}, raw("{" + entry("q", "[1,64]", "[0,128]") + "," + k + "," + v + "}", 384)},
      {"q and k disagree", {"'k'", "128"},
       call_with([](tensor_file& f) {
         tensor_file other("call");
         for (named_tensor const& t : f.tensors())
           other.add(t.name, t.name == "q" ? t.value : tensor{dtype::bf16, {4, 2, 128}, std::vector<std::byte>(4 * 2 * 128 * 2)});
         f = other;
       })},
      {"scale NaN", {"softmax_scale", "nan"}, call_with([](tensor_file& f) { f.metadata["softmax_scale"] = "nan"; })},
      {"scale not a number", {"softmax_scale", "one"}, call_with([](tensor_file& f) { f.metadata["softmax_scale"] = "one"; })},
      {"causal 2", {"causal", "0 or 1"}, call_with([](tensor_file& f) { f.metadata["causal"] = "2"; })},
  };
}

void check_refused(outcome const& o, std::vector<std::string> const& words, std::string const& file) {
  CHECK(o.status == 2);
  CHECK(o.output.empty());
  CHECK(std::ranges::count(o.error, '\n') == 1);
  CHECK_THAT(o.error, Catch::Matchers::StartsWith("stickybit: "));
  if (!file.empty()) CHECK_THAT(o.error, Catch::Matchers::Contains(file));
  for (std::string const& word : words) CHECK_THAT(o.error, Catch::Matchers::Contains(word));
}

}  // namespace

TEST_CASE("command: every bad file is one clear line and status 2, for every command that reads one", "[cli][faults]") {
  const temporary_folder folder;
  for (fault const& f : bad_files()) {
    const auto path = folder / (f.name + ".safetensors");
    f.make(path);
    INFO(f.name);
    for (const char* words : {"attention 'FILE' --schedule fa3 -o 'OUT'", "bias 'FILE' --schedule fa3", "explain attention 'FILE' --schedule fa3 --at 0,0,0"}) {
      std::string line = words;
      line.replace(line.find("FILE"), 4, path.string());
      if (const auto out = line.find("OUT"); out != line.npos) line.replace(out, 3, (folder / "out.safetensors").string());
      INFO(line);
      check_refused(run_command(line, (folder / "stderr").string()), f.words, f.name);
    }
    CHECK(!std::filesystem::exists(folder / "out.safetensors"));
  }
}

TEST_CASE("command: bad usage is one clear line and status 2", "[cli][faults]") {
  const temporary_folder folder;
  const std::string call = "'" + golden_call + "'", out = "'" + (folder / "out.safetensors").string() + "'";
  const std::string no_gradient = "'" STICKYBIT_GOLDEN_DIR "/h200/ties_b1_q128_k256_h1x1_d64_c1.safetensors'", huge = (folder / "huge.safetensors").string();
  tensor_file many_rows("huge");
  for (const char* name : {"q", "k", "v", "do"}) many_rows.add(name, tensor{dtype::bf16, {32769, 1, 1}, std::vector<std::byte>(32769 * 2)});
  many_rows.save(huge);
  const std::vector<std::pair<std::string, std::vector<std::string>>> calls{
      {"", {}},
      {"frobnicate", {"frobnicate"}},
      {"attention " + call, {"--schedule"}},
      {"attention " + call + " --schedule fa9", {"fa9", "fa3"}},
      {"attention " + call + " --schedule fa3 --unit sm42.mma.bf16.f32", {"sm42.mma.bf16.f32", "sm90.wgmma.bf16.f32"}},
      {"attention " + call + " --schedule fa3 --causal 2", {"causal"}},
      {"attention " + call + " --schedule fa3 --softmax-scale nan", {"nan"}},
      {"attention " + call + " --schedule fa3 --softmax-scale 1,5", {"1,5"}},
      {"attention " + call + " --schedule fa3 --layout h,s,d", {"h,s,d"}},
      {"attention " + call + " --schedule fa3 --fix magic", {"magic"}},
      {"attention " + call + " --schedule fa3 --tensors dq", {"dq", "--backward"}},
      {"attention " + call + " --schedule fa3 --tensors o,ds", {"ds", "--backward"}},
      {"attention " + call + " --schedule fa3 --backward --tensors dw", {"dw"}},
      {"attention " + no_gradient + " --schedule fa3 --backward", {"'do'", "BF16 [1, 128, 1, 64]"}},
      {"attention " + no_gradient + " --schedule fa3 --backward --tensors o", {"'do'"}},
      {"attention " + call + " --schedule triton-m64-n64 --backward -o " + out, {"triton-m64-n64", "backward"}},
      {"attention '" + huge + "' --schedule fa3 --backward --tensors o,ds -o " + out, {"ds", "[1, 32769, 32769]", "2^30"}},
      {"orders " + call, {"--schedule"}},
      {"orders " + no_gradient + " --schedule fa3", {"'do'", "BF16 [1, 128, 1, 64]"}},
      {"orders " + call + " --schedule exact", {"exact", "parts"}},
      {"orders " + call + " --schedule fa3 --tries 0", {"tries"}},
      {"orders " + call + " --schedule fa3 --seed x", {"seed"}},
      {"orders " + call + " --schedule fa3 --against nothing", {"'nothing'"}},
      {"orders " + call + " --schedule fa3 --against fa3.lse", {"'fa3.lse'", "BF16 [64, 2, 128]"}},
      {"orders " + call + " --schedule fa3 --against '" + golden_call + ":'", {"':'"}},
      {"orders " + call + " --schedule fa3 --against '" + golden_call + ":nothing'", {"'nothing'"}},
      {"attention " + call + " --schedule fa3 -o '" + (folder / "no/such/folder/out").string() + "'", {"no/such/folder"}},
      {"attention " + call + " --schedule fa3 -o '" + folder.path().string() + "'", {"folder"}},
      {"bias " + call + " --schedule fa3 --json '" + (folder / "no/such/folder/b.json").string() + "'", {"no/such/folder"}},
      {"bias " + call + " --schedule fa3 --softmax-scale -1", {"scale"}},
      {"explain add 1", {}},
      {"explain add 1 banana", {"banana"}},
      {"explain add 1 0x3f80", {"0x3f80", "eight hex digits"}},
      {"explain dot --a 0x3f80 --b 0x3f80,0x3f80", {"1", "2"}},
      {"explain dot --a 0.1 --b 1", {"0.1", "neighbours"}},
      {"explain dot --unit sm90.wgmma.e4m3.f32 --a 0x3f80 --b 1", {"0x3f80", "2 hex digits"}},
      {"gemm '" + golden_call + "' --unit sm90.wgmma.e4m3.f32", {"'a'"}},
      {"gemm '" + golden_call + "' --unit sm90.mma.f64.f64", {"sm90.mma.f64.f64", "FP64", "gemm_bits()"}},
      {"attention '" + golden_call + "' --schedule fa3 --unit sm90.wgmma.e5m2.f32", {"sm90.wgmma.e5m2.f32", "e5m2", "expected one that takes bf16"}},
      {"explain dot --a 0x3f80 --b 0x3f800", {"0x3f800", "4 hex digits"}},
      {"explain attention " + call + " --schedule fa3 --at 0,64,0", {"row 64", "63"}},
      {"explain attention " + call + " --schedule fa3 --at 0,0", {}},
      {"explain attention " + call + " --schedule fa3 --at 0,x,0", {"'x'"}},
      {"gemm " + call, {"'a'"}},
      {"gemm " + call + " --split-k 0", {"split-k"}},
      {"compare " + call + " '" + golden_call + ":nothing'", {"nothing"}},
      {"compare " + call + " '" + golden_call + ":'", {"':'"}},
  };
  for (auto const& [words, expected] : calls) {
    INFO(words);
    check_refused(run_command(words, (folder / "stderr").string()), expected, "");
  }
  CHECK(!std::filesystem::exists(folder / "out.safetensors"));
}

TEST_CASE("command: help is no error", "[cli]") {
  const temporary_folder folder;
  for (const char* words : {"--help", "bias --help", "explain dot --help", "--version"}) {
    const outcome o = run_command(words, (folder / "stderr").string());
    CHECK(o.status == 0);
    CHECK(!o.output.empty());
    CHECK(o.error.empty());
  }
}
