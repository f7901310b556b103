#include <array>
#include <string>
#include <vector>

#include "tensor_file/file_bytes.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;

namespace {

/// Every dtype, a scalar, an empty tensor, texts that JSON must escape.
tensor_file example() {
  tensor_file file("example");
  file.metadata = {{"layout", "s,h,d"}, {"", "empty key"}, {"quote\"\\\n", std::string("zero\0byte", 9)}, {"é", "\xf0\x9f\x98\x80"}};
  for (const dtype type : all_dtypes) {
    const std::size_t size = size_bytes(type);
    tensor t{type, {2, 3}, {}};
    for (std::size_t i = 0; i < 6 * size; ++i) t.bytes.push_back(static_cast<std::byte>(0xf0 + i));
    file.add(std::string(name_of(type)), t);
  }
  file.add("scalar", tensor{dtype::f32, {}, as_bytes("1234")});
  file.add("empty", tensor{dtype::bf16, {3, 0, 1'000'000'000'000}, {}});
  file.add(std::string("odd \"name\"\n\0 é", 15), tensor{dtype::f8_e5m2, {1}, as_bytes("x")});
  return file;
}

}  // namespace

TEST_CASE("tensor_file: parse undoes to_bytes, and load undoes save", "[tensor_file][fast]") {
  const tensor_file file = example();
  CHECK(tensor_file::parse(file.to_bytes(), "again") == file);

  const temporary_folder folder;
  file.save(folder / "x.safetensors");
  const tensor_file loaded = tensor_file::load(folder / "x.safetensors");
  CHECK(loaded == file);
  CHECK(loaded.name() == (folder / "x.safetensors").string());
  CHECK(as_bytes(read_text(folder / "x.safetensors")) == file.to_bytes());
}

TEST_CASE("tensor_file: equality sees every part", "[tensor_file][fast]") {
  const tensor_file file = example();
  tensor_file other = example();
  other.metadata["layout"] = "b,s,h,d";
  CHECK_FALSE(other == file);
  other = example();
  other.add("one more", tensor{dtype::bf16, {0}, {}});
  CHECK_FALSE(other == file);
  tensor_file a;
  tensor_file b;
  a.add("t", tensor{dtype::f32, {1}, as_bytes("1234")});
  b.add("t", tensor{dtype::f32, {1}, as_bytes("1235")});
  CHECK_FALSE(a == b);
}

TEST_CASE("tensor_file: to_bytes writes the format's reference bytes", "[tensor_file][golden]") {
  // The bytes that the reference library's own tests expect.
  // @source huggingface/safetensors 000a16f safetensors/src/tensor.rs, test_serialization, test_empty
  const std::array<std::uint32_t, 6> values{0x00000000, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000};
  tensor_file file;
  CHECK(file.to_bytes() == as_bytes(file_text("{}      ")));
  file.metadata["framework"] = "pt";
  CHECK(file.to_bytes() == as_bytes(file_text(R"({"__metadata__":{"framework":"pt"}}     )")));

  tensor_file attention;
  attention.add("attn.0", make_tensor<std::uint32_t>(dtype::f32, {1, 2, 3}, values));
  std::string expected = file_text(R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  for (const char* upper : {"\x00\x00", "\x80\x3f", "\x00\x40", "\x40\x40", "\x80\x40", "\xa0\x40"})
    expected += std::string(2, '\0') + std::string(upper, 2);
  CHECK(attention.to_bytes() == as_bytes(expected));
}

TEST_CASE("tensor_file: to_bytes sorts metadata, keeps the order of tensors, begins data at a multiple of 8", "[tensor_file][fast]") {
  for (std::size_t length = 1; length <= 16; ++length) {
    tensor_file file;
    file.metadata = {{"b", "2"}, {"a", "1"}};
    file.add(std::string(length, 'z'), tensor{dtype::f8_e4m3, {1}, as_bytes("Z")});
    file.add("a", tensor{dtype::bf16, {1}, as_bytes("AA")});
    const auto bytes = file.to_bytes();
    const std::size_t json_bytes = std::to_integer<std::size_t>(bytes[0]);
    CHECK(json_bytes % 8 == 0);
    CHECK(bytes.size() == 8 + json_bytes + 3);
    const std::string json = R"({"__metadata__":{"a":"1","b":"2"},")" + std::string(length, 'z') +
                             R"(":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},)"
                             R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[1,3]}})";
    const std::string written(reinterpret_cast<char const*>(bytes.data()) + 8, json_bytes);
    CHECK(written == json + std::string(json_bytes - json.size(), ' '));
    CHECK(bytes.back() == std::byte{'A'});
  }
}

TEST_CASE("tensor_file: parse takes any legal spelling", "[tensor_file][fast]") {
  // Data in another order than the header, white space, escapes, an entry's keys in any order.
  const tensor_file file = parse_text(file_text(
      "{ \"b\" :\t{\"data_offsets\":[2,6],\"shape\":[ 1 , 1 ],\"dtype\":\"F\\u00332\"},\n\"a\":{\"dtype\":\"BF16\",\"shape\":[],"
      "\"data_offsets\":[0,2]},\"none\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[2,2]},\"__metadata__\":{}}   ",
      6));
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.metadata.empty());
  CHECK(file.tensors()[0] == named_tensor{"b", {dtype::f32, {1, 1}, as_bytes("\x02\x03\x04\x05")}});
  CHECK(file.tensors()[1] == named_tensor{"a", {dtype::bf16, {}, as_bytes(std::string("\x00\x01", 2))}});
  CHECK(file.tensors()[2] == named_tensor{"none", {dtype::f16, {0}, {}}});
  CHECK(tensor_file::parse(file.to_bytes(), "again") == file);
  CHECK(parse_text(file_text("{}")) == tensor_file());
}
