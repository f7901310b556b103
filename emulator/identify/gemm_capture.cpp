#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "stickybit/identify/gemm_search.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {
namespace {

std::string metadata_or(tensor_file const& file, std::string const& key, std::string fallback) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::move(fallback) : found->second;
}

/// "0,17,32". @throws file_error unless `count` numbers that ascend
std::vector<std::int64_t> places(tensor_file const& file, std::string const& key, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  const std::string text = metadata_or(file, key, "");
  if (text.empty()) return numbers;
  char const* at = text.data();
  char const* const end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    const bool last = i + 1 == numbers.size();
    if (error != std::errc() || (i > 0 && numbers[i] <= numbers[i - 1]) || numbers[i] < 0 || (last ? next != end : next == end || *next != ','))
      throw file_error(file.name(), key, fmt::format("{} ascending numbers with commas between them", count), fmt::format("'{}'", text.substr(0, 60)));
    at = last ? next : next + 1;
  }
  return numbers;
}

std::int64_t whole_size(tensor_file const& file, std::string const& key, std::vector<std::int64_t> const& places) {
  const std::int64_t least = places.empty() ? 0 : places.back() + 1;
  const std::string text = metadata_or(file, key, "");
  if (text.empty()) return least;
  std::int64_t size = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || next != text.data() + text.size() || size < least)
    throw file_error(file.name(), key, fmt::format("a size of at least {}, as the last index says", least), fmt::format("'{}'", text.substr(0, 60)));
  return size;
}

std::vector<std::uint32_t> codes_of(tensor const& t) {
  if (size_bytes(t.type) == 4) return t.elements<std::uint32_t>();
  const auto half = t.elements<std::uint16_t>();
  return {half.begin(), half.end()};
}

std::string machine_of(std::string const& gpu) {
  const auto is = [&](std::string_view name) { return gpu.find(name) != gpu.npos; };
  return is("H100") || is("H200") || is("GH200") ? "sm90" : is("A100") || is("A30") ? "sm80" : is("L40") || is("Ada") || is("RTX 40") ? "sm89" : is("B200") ? "sm100" : "";
}

/// The format of a result by its name's end; nothing where the name is no result's.
std::optional<dtype> result_type(named_tensor const& t) {
  const auto is = [&](std::string_view end) { return t.name == end || t.name.ends_with(fmt::format(".{}", end)); };
  if (is("d_f32")) return dtype::f32;
  if (is("d_bf16")) return dtype::bf16;
  if (is("d_f16")) return dtype::f16;
  if (is("d")) return t.value.type;
  return std::nullopt;
}

format format_of(dtype type) { return type == dtype::bf16 ? format::bf16 : type == dtype::f16 ? format::f16 : format::f32; }

/// The operands, which all results of a file share.
captured_product operands_of(tensor_file const& file) {
  tensor const *a = file.find("a"), *b = file.find("b");
  if (a == nullptr || b == nullptr) throw file_error(file.name(), a == nullptr ? "a" : "b", "a tensor of shape [M, K], [N, K]", "none");
  if (a->type != dtype::bf16 && a->type != dtype::f16 && a->type != dtype::f32) throw file_error(file.name(), "a", "type BF16, F16 or F32", std::string(name_of(a->type)));
  if (a->rank() != 2) throw file_error(file.name(), "a", "shape [M, K]", shape_text(a->shape));
  if (b->type != a->type) throw file_error(file.name(), "b", fmt::format("type {} as a", name_of(a->type)), std::string(name_of(b->type)));
  if (b->rank() != 2 || b->shape[1] != a->shape[1]) throw file_error(file.name(), "b", fmt::format("shape [N, {}], K as in a", a->shape[1]), shape_text(b->shape));
  captured_product p;
  p.input = format_of(a->type);
  p.m = a->shape[0];
  p.n = b->shape[0];
  p.k = a->shape[1];
  p.a = codes_of(*a);
  p.b = codes_of(*b);
  if (file.find("c") != nullptr) p.c = file.require("c", dtype::f32, {p.m, p.n}).elements<f32_code>();
  p.row_index = places(file, "row_index", p.m);
  p.column_index = places(file, "column_index", p.n);
  p.rows = whole_size(file, "m", p.row_index);
  p.columns = whole_size(file, "n", p.column_index);
  p.machine = machine_of(metadata_or(file, "gpu", ""));
  return p;
}

}  // namespace

std::vector<captured_product> read_captured_products(tensor_file const& file) {
  const captured_product operands = operands_of(file);
  std::vector<captured_product> products;
  for (named_tensor const& t : file.tensors()) {
    const std::optional<dtype> type = result_type(t);
    if (!type) continue;
    if (*type != dtype::bf16 && *type != dtype::f16 && *type != dtype::f32) throw file_error(file.name(), t.name, "type F32, BF16 or F16", std::string(name_of(*type)));
    captured_product p = operands;
    p.name = t.name;
    p.output = format_of(*type);
    p.d = codes_of(file.require(t.name, *type, {p.m, p.n}));
    p.truth = metadata_or(file, t.name + ".truth", "");
    p.kernels = metadata_or(file, t.name + ".kernels", "");
    if (p.input == format::f32) p.input = format::tf32;  // TF32 units and FMA are both possible
    products.push_back(std::move(p));
  }
  if (products.empty()) throw file_error(file.name(), "d", "a result named d, or <producer>.d_f32, .d_bf16, .d_f16", "none");
  return products;
}

}  // namespace stickybit
