#include "stickybit/tensor_file/tensor.hpp"

#include <array>
#include <string>
#include <vector>

#include "stickybit/tensor_file/dtype.hpp"
#include "support/catch.hpp"

using namespace stickybit;

TEST_CASE("dtype: names and sizes", "[tensor_file][fast]") {
  std::string text;
  for (const dtype type : all_dtypes) text += std::string(name_of(type)) + " " + std::to_string(size_bytes(type)) + "; ";
  CHECK(text == "BF16 2; F16 2; F32 4; F8_E4M3 1; F8_E5M2 1; ");
}

TEST_CASE("element_count: product of the sizes, nothing where it could overflow", "[tensor_file][fast]") {
  const auto count = [](std::vector<std::int64_t> const& shape) { return element_count(shape); };
  CHECK(count({}) == 1);
  CHECK(count({7}) == 7);
  CHECK(count({2, 3, 4}) == 24);
  CHECK(count({2, 0, 4}) == 0);
  CHECK(count({INT64_MAX}) == INT64_MAX);
  CHECK(count({INT64_MAX, 1}) == INT64_MAX);
  CHECK(count({3, INT64_MAX / 3}) == INT64_MAX / 3 * 3);
  CHECK_FALSE(count({3, INT64_MAX / 3 + 1}));
  CHECK_FALSE(count({INT64_MAX, 2, 0}));
  CHECK_FALSE(count({0, INT64_MAX, 2}));
  CHECK_FALSE(count({0, -1}));
  CHECK_FALSE(count({INT64_MIN}));
}

TEST_CASE("shape_text: a list; shape_pattern_text: * for any size", "[tensor_file][fast]") {
  const auto text = [](std::vector<std::int64_t> const& shape) { return shape_text(shape); };
  CHECK(text({}) == "[]");
  CHECK(text({5}) == "[5]");
  CHECK(text({2, any_size, 0}) == "[2, -1, 0]");
  CHECK(shape_pattern_text(std::vector<std::int64_t>{2, any_size, 0}) == "[2, *, 0]");
}

TEST_CASE("tensor: elements undoes make_tensor, little-endian bytes between", "[tensor_file][fast]") {
  const std::array codes{bf16_code::from_bits(0x3f80), bf16_code::from_bits(0xc000)};
  const tensor t = make_tensor<bf16_code>(dtype::bf16, {2}, codes);
  CHECK(t.bytes == std::vector{std::byte{0x80}, std::byte{0x3f}, std::byte{0x00}, std::byte{0xc0}});
  CHECK(t.elements<bf16_code>() == std::vector(codes.begin(), codes.end()));
  CHECK(t.elements<std::uint16_t>() == std::vector<std::uint16_t>{0x3f80, 0xc000});
  CHECK(t.rank() == 1);
  CHECK(t.element_count() == 2);

  const std::array<f32_code, 1> one{f32_code::from_bits(0x3f800000)};
  const tensor scalar = make_tensor<f32_code>(dtype::f32, {}, one);
  CHECK(scalar.bytes == std::vector{std::byte{0x00}, std::byte{0x00}, std::byte{0x80}, std::byte{0x3f}});
  CHECK(scalar.elements<f32_code>() == std::vector{one[0]});
  CHECK(scalar.element_count() == 1);

  const std::array<std::uint8_t, 2> bytes{0x7f, 0x80};
  CHECK(make_tensor<std::uint8_t>(dtype::f8_e5m2, {1, 2}, bytes).elements<std::uint8_t>() == std::vector<std::uint8_t>{0x7f, 0x80});
  CHECK(make_tensor<f32_code>(dtype::f32, {0, 4}, {}).elements<f32_code>().empty());
}

TEST_CASE("tensor: elements of another type, or another number of them, are refused", "[tensor_file][fast]") {
  const tensor f16{dtype::f16, {2}, std::vector<std::byte>(4)};
  CHECK_THROWS_WITH((void)f16.elements<bf16_code>(), "expected elements of type F16, found another type of 2 bytes");
  CHECK_THROWS_WITH((void)f16.elements<f32_code>(), "expected elements of type F16, found another type of 4 bytes");
  CHECK_THROWS_WITH((void)f16.elements<std::uint8_t>(), "expected elements of type F16, found another type of 1 bytes");
  CHECK(f16.elements<std::uint16_t>().size() == 2);
  const tensor odd{dtype::f32, {1}, std::vector<std::byte>(5)};
  CHECK_THROWS_WITH((void)odd.elements<f32_code>(), "expected a multiple of 4 bytes for F32, found 5");
  const std::array<std::uint16_t, 3> three{};
  CHECK_THROWS_WITH(make_tensor<std::uint16_t>(dtype::bf16, {2, 2}, three), "expected 4 elements for shape [2, 2], found 3");
  CHECK_THROWS_WITH(make_tensor<std::uint16_t>(dtype::f32, {3}, three), "expected elements of type F32, found another type of 2 bytes");
  CHECK_THROWS_WITH(make_tensor<std::uint16_t>(dtype::bf16, {-3}, three), "expected sizes >= 0 with a product below 2^63, found [-3]");
}
