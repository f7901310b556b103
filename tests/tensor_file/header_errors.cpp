// One line for each fault of the first bytes and of the JSON.
#include <string>
#include <vector>

#include "tensor_file/file_bytes.hpp"

using namespace stickybit;

namespace {

struct fault {
  std::string json;
  std::string message;
};

void check_faults(std::vector<fault> const& faults) {
  for (auto const& [json, message] : faults) {
    INFO(json);
    CHECK(parse_error(file_text(json, 8)) == "t.safetensors: " + message);
  }
}

std::string entry(std::string const& content) { return R"({"a":{)" + content + "}}"; }

}  // namespace

TEST_CASE("tensor_file: the length field's faults are named", "[tensor_file][fast]") {
  CHECK(parse_error("") == "t.safetensors: expected a safetensors file, found an empty file");
  CHECK(parse_error("1234567") == "t.safetensors: expected a safetensors file of at least 8 bytes, found 7");
  CHECK(parse_error(length_field(3) + "{}") ==
        "t.safetensors: expected a header of 3 bytes, as the file begins by saying, found 2 bytes after that");
  CHECK(parse_error(length_field(100'000'000) + "{}") ==
        "t.safetensors: expected a header of 100000000 bytes, as the file begins by saying, found 2 bytes after that");
  CHECK(parse_error(length_field(100'000'001) + "{}") ==
        "t.safetensors: expected a header of at most 100000000 bytes, found 100000001");
  CHECK(parse_error(length_field(UINT64_MAX) + "{}") ==
        "t.safetensors: expected a header of at most 100000000 bytes, found 18446744073709551615");
}

TEST_CASE("tensor_file: a header that is no JSON object is named", "[tensor_file][fast]") {
  const std::string begins = "expected a header that begins with '{', found ";
  check_faults({
      {"", begins + "an empty header"},
      {"[]", begins + "'['"},
      {" {}", begins + "' '"},
      {"\xff", begins + "'\\xff'"},
      {"\n", begins + "'\\u{a}'"},
      {std::string("{}\0x", 4), "expected a header in JSON, found a zero byte at its byte 2"},
      {"{\"a\xc3(\":{}}", "expected a header in UTF-8, found the byte 0xc3 at its byte 3"},
      {"{\"\xed\xa0\x80\":{}}", "expected a header in UTF-8, found the byte 0xed at its byte 2"},
      {"{\"\xc0\xaf\":{}}", "expected a header in UTF-8, found the byte 0xc0 at its byte 2"},
      {"{\"\xe0\x9f\xbf\":{}}", "expected a header in UTF-8, found the byte 0xe0 at its byte 2"},
      {"{\"\xf0\x8f\xbf\xbf\":{}}", "expected a header in UTF-8, found the byte 0xf0 at its byte 2"},
      {"{\"\xf4\x90\x80\x80\":{}}", "expected a header in UTF-8, found the byte 0xf4 at its byte 2"},
      {"{\"\xf8\x88\x80\x80\x80\":{}}", "expected a header in UTF-8, found the byte 0xf8 at its byte 2"},
      {"{\"\x80\":{}}", "expected a header in UTF-8, found the byte 0x80 at its byte 2"},
      {"{\"\xe2\x82", "expected a header in UTF-8, found the byte 0xe2 at its byte 2"},
  });
  for (const std::string json : {"{", "{}}", "{}x", "{\"a\"}", "{\"a\":}", "{'a':{}}", "{/**/}", "{,}", "{}{}", "{\"\\ud800\":{}}",
                                 "{\"a\n\":{}}", "{\"a\":{\"shape\":[1e999]}}"}) {
    INFO(json);
    const std::string message = parse_error(file_text(json));
    CHECK_THAT(message, Catch::Matchers::StartsWith("t.safetensors: expected a header in JSON, found at its byte "));
    CHECK(message.find_first_of("\n\r") == std::string::npos);
  }
}

TEST_CASE("tensor_file: nesting is refused where it begins, whatever its depth", "[tensor_file][fast]") {
  const std::size_t depth = 1'000'000;
  const std::string lists(depth, '[');
  check_faults({
      {R"({"a":)" + lists, "tensor 'a': expected an object with dtype, shape and data_offsets, found a list"},
      {R"({"a":{"shape":)" + lists, "tensor 'a': expected integer sizes from 0 to 2^63 - 1 in shape, found a list"},
      {R"({"__metadata__":{"k":)" + lists, "expected only strings in __metadata__, found a list for key 'k'"},
  });
  std::string objects = "{";
  for (std::size_t i = 0; i < depth; ++i) objects += R"("a":{)";
  check_faults({{objects, "tensor 'a': expected only the keys dtype, shape and data_offsets, found 'a'"}});
}

TEST_CASE("tensor_file: a key that stands twice is an error at every level", "[tensor_file][fast]") {
  const std::string valid = R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  check_faults({
      {R"({"a":)" + valid + R"(,"a":)" + valid + "}", "expected each name once, found 'a' twice"},
      {R"({"a":)" + valid + R"(,"\u0061":)" + valid + "}", "expected each name once, found 'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "expected each name once, found '__metadata__' twice"},
      {R"({"__metadata__":{"k":"1","j":"2","k":"1"}})", "expected each key of __metadata__ once, found 'k' twice"},
      {entry(R"("dtype":"U8","dtype":"U8")"), "tensor 'a': expected each key once, found 'dtype' twice"},
      {entry(R"("shape":[8],"shape":[8])"), "tensor 'a': expected each key once, found 'shape' twice"},
      {entry(R"("data_offsets":[0,8],"data_offsets":[0,8])"), "tensor 'a': expected each key once, found 'data_offsets' twice"},
  });
}

TEST_CASE("tensor_file: metadata holds strings only", "[tensor_file][fast]") {
  const std::string object = "expected an object of strings in __metadata__, found ";
  const std::string strings = "expected only strings in __metadata__, found ";
  check_faults({
      {R"({"__metadata__":null})", object + "null"},
      {R"({"__metadata__":[]})", object + "a list"},
      {R"({"__metadata__":"x"})", object + "the string 'x'"},
      {R"({"__metadata__":{"k":1}})", strings + "1 for key 'k'"},
      {R"({"__metadata__":{"k":-1}})", strings + "-1 for key 'k'"},
      {R"({"__metadata__":{"k":0.5}})", strings + "0.5 for key 'k'"},
      {R"({"__metadata__":{"k":true}})", strings + "true for key 'k'"},
      {R"({"__metadata__":{"k":null}})", strings + "null for key 'k'"},
      {R"({"__metadata__":{"k":{}}})", strings + "an object for key 'k'"},
      {R"({"__metadata__":{"a\nb":false}})", strings + "false for key 'a\\u{a}b'"},
  });
}

TEST_CASE("tensor_file: an entry has three keys, each of its kind", "[tensor_file][fast]") {
  const std::string keys = "tensor 'a': expected the keys dtype, shape and data_offsets, found no ";
  const std::string object = "tensor 'a': expected an object with dtype, shape and data_offsets, found ";
  const std::string type = "tensor 'a': expected a dtype of the format, such as BF16 or F32, found ";
  const std::string offsets = "tensor 'a': expected two integers from 0 to 2^64 - 1 in data_offsets, found ";
  check_faults({
      {R"({"":{}})", "expected tensor names that are not empty, found ''"},
      {R"({"a":null})", object + "null"},
      {R"({"a":7})", object + "7"},
      {R"({"a":"x"})", object + "the string 'x'"},
      {entry(""), keys + "dtype"},
      {entry(R"("shape":[8],"data_offsets":[0,8])"), keys + "dtype"},
      {entry(R"("dtype":"U8","data_offsets":[0,8])"), keys + "shape"},
      {entry(R"("dtype":"U8","shape":[8])"), keys + "data_offsets"},
      {entry(R"("dtype":"U8","shape":[8],"data_offsets":[0,8],"strides":[1])"),
       "tensor 'a': expected only the keys dtype, shape and data_offsets, found 'strides'"},
      {entry(R"("dtype":8)"), "tensor 'a': expected a string as dtype, found 8"},
      {entry(R"("dtype":"bf16")"), type + "'bf16'"},
      {entry(R"("dtype":"BF16 ")"), type + "'BF16 '"},
      {entry(R"("dtype":"\u001b[2J\u202e")"), type + "'\\u{1b}[2J\\u{202e}'"},
      {entry(R"("shape":8)"), "tensor 'a': expected a list of sizes as shape, found 8"},
      {entry(R"("shape":{})"), "tensor 'a': expected a list of sizes as shape, found an object"},
      {entry(R"("data_offsets":"0,8")"), "tensor 'a': expected a list of two integers as data_offsets, found the string '0,8'"},
      {entry(R"("data_offsets":[])"), offsets + "only 0"},
      {entry(R"("data_offsets":[0])"), offsets + "only 1"},
      {entry(R"("data_offsets":[0,8,8])"), offsets + "more"},
      {entry(R"("data_offsets":[-8,8])"), offsets + "-8"},
      {entry(R"("data_offsets":[0,8.0])"), offsets + "8.0"},
      {entry(R"("data_offsets":[0,18446744073709551616])"), offsets + "18446744073709551616"},
  });
}

TEST_CASE("tensor_file: sizes are integers from 0 to 2^63 - 1", "[tensor_file][fast]") {
  for (const std::string size : {"-1", "-0", "1.5", "1e3", "8.0", "9223372036854775808", "99999999999999999999", "null", "true"}) {
    INFO(size);
    CHECK(parse_error(file_text(entry(R"("dtype":"U8","data_offsets":[0,8],"shape":[)" + size + "]"), 8)) ==
          "t.safetensors: tensor 'a': expected integer sizes from 0 to 2^63 - 1 in shape, found " + size);
  }
}
