#include <string>
#include <vector>

#include "tensor_file/file_bytes.hpp"

using namespace stickybit;

namespace {

tensor_file example() {
  return parse_text(file_text(R"({"q":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                              R"("lse":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
                              R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},)"
                              R"("packed":{"dtype":"F4","shape":[4],"data_offsets":[24,26]}})",
                              26));
}

std::string add_error(std::string const& name, tensor const& t) {
  tensor_file file = example();
  const std::string message = error_of([&] { file.add(name, t); });
  CHECK(file == example());
  return message;
}

}  // namespace

TEST_CASE("require: gives the tensor of this name, dtype, rank and shape", "[tensor_file][fast]") {
  const tensor_file file = example();
  tensor const* q = file.find("q");
  REQUIRE(q != nullptr);
  CHECK(q->bytes.front() == std::byte{0});
  CHECK(&file.require("q", dtype::bf16) == q);
  CHECK(&file.require("q", dtype::bf16, 2) == q);
  CHECK(&file.require("q", dtype::bf16, {2, 3}) == q);
  CHECK(&file.require("q", dtype::bf16, {any_size, 3}) == q);
  CHECK(&file.require("lse", dtype::f32, 0) == file.find("lse"));
  CHECK(file.find("lse")->bytes.front() == std::byte{12});
  CHECK(file.find("do") == nullptr);
}

TEST_CASE("require: names file, tensor, expected and found", "[tensor_file][fast]") {
  const tensor_file file = example();
  const auto error = [&](auto const&... arguments) { return error_of([&] { (void)file.require(arguments...); }); };
  using shape = std::vector<std::int64_t>;
  CHECK(error("q", dtype::f32) == "t.safetensors: tensor 'q': expected F32, found BF16 [2, 3]");
  CHECK(error("q", dtype::bf16, 3) == "t.safetensors: tensor 'q': expected BF16 [*, *, *], found BF16 [2, 3]");
  CHECK(error("q", dtype::f16, 2) == "t.safetensors: tensor 'q': expected F16 [*, *], found BF16 [2, 3]");
  CHECK(error("q", dtype::bf16, shape{any_size, 4}) == "t.safetensors: tensor 'q': expected BF16 [*, 4], found BF16 [2, 3]");
  CHECK(error("q", dtype::bf16, shape{3}) == "t.safetensors: tensor 'q': expected BF16 [3], found BF16 [2, 3]");
  CHECK(error("do", dtype::bf16) == "t.safetensors: tensor 'do': expected BF16, found only q, lse");
  CHECK(error_of([] { (void)tensor_file("x").require("q", dtype::f32, 1); }) ==
        "x: tensor 'q': expected F32 [*], found a file without tensors");
}

TEST_CASE("tensor_file: a tensor of another safetensors type is left unread and named where asked for", "[tensor_file][fast]") {
  const tensor_file file = example();
  REQUIRE(file.unread().size() == 2);
  CHECK(file.unread()[0] == unread_tensor{"ids", "I64", {1}});
  CHECK(file.unread()[1] == unread_tensor{"packed", "F4", {4}});
  CHECK(file.find("ids") == nullptr);
  CHECK(error_of([&] { (void)file.require("ids", dtype::f32); }) == "t.safetensors: tensor 'ids': expected F32, found I64 [1]");
  CHECK(error_of([&] { (void)file.require("ids", dtype::f32, {any_size}); }) ==
        "t.safetensors: tensor 'ids': expected F32 [*], found I64 [1]");
  // Writing it again would lose that tensor.
  CHECK(error_of([&] { (void)file.to_bytes(); }) ==
        "t.safetensors: tensor 'ids': expected a dtype that can be written, found I64, left unread");
}

TEST_CASE("tensor_file: every type of the format is known, with its width", "[tensor_file][fast]") {
  struct known {
    std::string name;
    std::size_t eight_elements_bytes;
  };
  const std::vector<known> types{{"BOOL", 8},        {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},  {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8},
                                 {"F8_E4M3", 8},     {"I16", 16}, {"U16", 16},    {"F8_E8M0", 8},  {"F16", 16}, {"I32", 32}, {"U32", 32},
                                 {"F8_E4M3FNUZ", 8}, {"F32", 32}, {"C64", 64},    {"F64", 64},     {"I64", 64}, {"U64", 64}, {"BF16", 16},
                                 {"F8_E5M2FNUZ", 8}};
  for (auto const& [name, bytes] : types) {
    INFO(name);
    const tensor_file file =
        parse_text(file_text(R"({"t":{"dtype":")" + name + R"(","shape":[8],"data_offsets":[0,)" + std::to_string(bytes) + "]}}", bytes));
    CHECK(file.tensors().size() + file.unread().size() == 1);
    for (auto const& [tensor_name, value] : file.tensors()) CHECK(name_of(value.type) == name);
    for (auto const& u : file.unread()) CHECK(u.type_name == name);
  }
}

TEST_CASE("add: refuses what no file can hold, and then changes nothing", "[tensor_file][fast]") {
  const tensor valid{dtype::bf16, {1}, as_bytes("12")};
  CHECK(add_error("", valid) == "t.safetensors: expected a tensor name that is not empty, found ''");
  CHECK(add_error("__metadata__", valid) ==
        "t.safetensors: tensor '__metadata__': expected another name for a tensor, found the key of the metadata");
  CHECK(add_error("a\xff", valid) == "t.safetensors: tensor 'a\\xff': expected a name in UTF-8, found other bytes");
  CHECK(add_error("q", valid) == "t.safetensors: tensor 'q': expected a new name, found it taken");
  CHECK(add_error("ids", valid) == "t.safetensors: tensor 'ids': expected a new name, found it taken");
  CHECK(add_error("n", {dtype::f32, {2, -1}, {}}) ==
        "t.safetensors: tensor 'n': expected sizes >= 0 with a product below 2^63, found [2, -1]");
  CHECK(add_error("n", {dtype::f32, {1LL << 32, 1LL << 31}, {}}) ==
        "t.safetensors: tensor 'n': expected sizes >= 0 with a product below 2^63, found [4294967296, 2147483648]");
  CHECK(add_error("n", {dtype::bf16, {2}, as_bytes("12345")}) ==
        "t.safetensors: tensor 'n': expected 2 elements of 2 bytes for BF16 [2], found 5 bytes");
  CHECK(add_error("n", {dtype::bf16, {2}, as_bytes("12")}) ==
        "t.safetensors: tensor 'n': expected 2 elements of 2 bytes for BF16 [2], found 2 bytes");
  CHECK(add_error("n", {dtype::f32, {1LL << 62}, {}}) ==
        "t.safetensors: tensor 'n': expected 4611686018427387904 elements of 4 bytes for F32 [4611686018427387904], found 0 bytes");
}
