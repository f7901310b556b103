// Entries whose JSON is right, but which do not fit their type and shape, the file or each other.
#include <string>
#include <vector>

#include "tensor_file/file_bytes.hpp"

using namespace stickybit;

namespace {

std::string entry(std::string const& name, std::string const& type, std::string const& shape, std::string const& offsets) {
  return '"' + name + R"(":{"dtype":")" + type + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}

std::string error_with_16_bytes(std::string const& entries) { return parse_error(file_text("{" + entries + "}", 16)); }

}  // namespace

TEST_CASE("tensor_file: a span outside the data is named", "[tensor_file][fast]") {
  CHECK(error_with_16_bytes(entry("a", "F32", "4", "16,0")) ==
        "t.safetensors: tensor 'a': expected data_offsets that do not decrease, found [16, 0]");
  CHECK(error_with_16_bytes(entry("a", "F32", "5", "0,20")) ==
        "t.safetensors: tensor 'a': expected data_offsets within the 16 bytes of data, found [0, 20]");
  CHECK(error_with_16_bytes(entry("a", "F32", "0", "17,17")) ==
        "t.safetensors: tensor 'a': expected data_offsets within the 16 bytes of data, found [17, 17]");
  CHECK(error_with_16_bytes(entry("a", "F32", "4", "18446744073709551600,18446744073709551615")) ==
        "t.safetensors: tensor 'a': expected data_offsets within the 16 bytes of data, found [18446744073709551600, "
        "18446744073709551615]");
}

TEST_CASE("tensor_file: a span other than type and shape say is named", "[tensor_file][fast]") {
  CHECK(error_with_16_bytes(entry("a", "F32", "3", "0,16")) ==
        "t.safetensors: tensor 'a': expected data_offsets that span 12 bytes for F32 [3], found [0, 16]: 16 bytes");
  CHECK(error_with_16_bytes(entry("a", "BF16", "", "0,16")) ==
        "t.safetensors: tensor 'a': expected data_offsets that span 2 bytes for BF16 [], found [0, 16]: 16 bytes");
  CHECK(error_with_16_bytes(entry("a", "F8_E4M3", "0, 7", "0,16")) ==
        "t.safetensors: tensor 'a': expected data_offsets that span 0 bytes for F8_E4M3 [0, 7], found [0, 16]: 16 bytes");
  CHECK(error_with_16_bytes(entry("a", "F6_E2M3", "3", "0,2")) ==
        "t.safetensors: tensor 'a': expected whole bytes, found 18 bits for F6_E2M3 [3]");
}

TEST_CASE("tensor_file: sizes whose product overflows are named before anything is allocated", "[tensor_file][fast]") {
  const std::string big = "4611686018427387904";  // 2^62
  const std::vector<std::string> shapes{big, big + ", 2", big + ", 4", "0, " + big + ", 4", big + ", 4, 0", "4294967296, 4294967296"};
  for (auto const& shape : shapes) {
    INFO(shape);
    CHECK(error_with_16_bytes(entry("a", "F32", shape, "0,16")) ==
          "t.safetensors: tensor 'a': expected a size below 2^63 bits, found F32 [" + shape + "]");
  }
  // The largest that does not overflow is compared with its span like any other.
  CHECK(error_with_16_bytes(entry("a", "F32", "288230376151711743", "0,16")) ==
        "t.safetensors: tensor 'a': expected data_offsets that span 1152921504606846972 bytes for F32 [288230376151711743], "
        "found [0, 16]: 16 bytes");
}

TEST_CASE("tensor_file: tensors cover the data once", "[tensor_file][fast]") {
  const std::string hole = "t.safetensors: tensor 'b': expected its data at 8, the end of tensor 'a', found it at ";
  CHECK(error_with_16_bytes(entry("a", "F32", "2", "0,8") + "," + entry("b", "F32", "1", "12,16")) == hole + "12: a hole");
  CHECK(error_with_16_bytes(entry("b", "F32", "3", "4,16") + "," + entry("a", "F32", "2", "0,8")) == hole + "4: they overlap");
  CHECK(error_with_16_bytes(entry("a", "I64", "1", "0,8") + "," + entry("b", "F32", "3", "4,16")) == hole + "4: they overlap");
  CHECK(error_with_16_bytes(entry("a", "F32", "2", "0,8") + "," + entry("b", "F32", "2", "0,8")) == hole + "0: they overlap");
  CHECK(error_with_16_bytes(entry("a", "F32", "4", "0,16") + "," + entry("z", "F32", "0", "8,8")) ==
        "t.safetensors: tensor 'z': expected its data at 16, the end of tensor 'a', found it at 8: they overlap");
  CHECK(error_with_16_bytes(entry("a", "F32", "3", "4,16")) ==
        "t.safetensors: tensor 'a': expected its data at 0, the beginning, found it at 4: a hole");
  CHECK(error_with_16_bytes(entry("a", "F32", "3", "0,12")) ==
        "t.safetensors: expected 12 bytes of data, as the header says, found 16");
  CHECK(error_with_16_bytes("") == "t.safetensors: expected 0 bytes of data, as the header says, found 16");
}

TEST_CASE("tensor_file: names in messages stay on one line and are cut", "[tensor_file][fast]") {
  CHECK(error_with_16_bytes(entry(R"(a\n\u0000\u2028é)", "F32", "3", "0,16")) ==
        "t.safetensors: tensor 'a\\u{a}\\u{0}\\u{2028}é': expected data_offsets that span 12 bytes for F32 [3], found [0, 16]: 16 bytes");
  const std::string message = error_with_16_bytes(entry(std::string(100'000, 'x'), "F32", "3", "0,16"));
  CHECK(message == "t.safetensors: tensor '" + std::string(93, 'x') +
                       "...': expected data_offsets that span 12 bytes for F32 [3], found [0, 16]: 16 bytes");
  std::string ones = "3";
  for (int i = 0; i < 10'000; ++i) ones += ", 1";
  CHECK(error_with_16_bytes(entry("a", "F32", ones, "0,16")).size() < 300);
}
