#include "stickybit/gemm/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/format/with_format.hpp"
#include "stickybit/rounding/convert.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {
namespace {

/// How a file stores codes of F, and what people call F.
struct stored_format {
  std::optional<dtype> type;  ///< none: only FP32 values
  const char* name;
};
constexpr stored_format stored_as(format f) {
  switch (f) {
    case format::bf16: return {dtype::bf16, "BF16"};
    case format::f16: return {dtype::f16, "FP16"};
    case format::e4m3fn: return {dtype::f8_e4m3, "E4M3"};
    case format::e5m2: return {dtype::f8_e5m2, "E5M2"};
    case format::tf32: return {dtype::f32, "TF32"};
    case format::e4m3fnuz: return {{}, "E4M3 FNUZ"};
    case format::e5m2fnuz: return {{}, "E5M2 FNUZ"};
    case format::e8m0: return {{}, "E8M0"};
    case format::e2m1: return {{}, "E2M1"};
    case format::e3m2: return {{}, "E3M2"};
    case format::e2m3: return {{}, "E2M3"};
    case format::f32: return {dtype::f32, "FP32"};
    case format::f64: break;
  }
  return {{}, "FP64"};
}

template <format F>
std::vector<std::uint64_t> raw_codes(tensor_file const& file, std::string_view name) {
  const std::vector<code<F>> codes = read_operand<F>(file, name);
  std::vector<std::uint64_t> bits(codes.size());
  std::transform(codes.begin(), codes.end(), bits.begin(), [](code<F> c) { return std::uint64_t{c.to_bits()}; });
  return bits;
}

}  // namespace

template <format F>
std::vector<code<F>> read_operand(tensor_file const& file, std::string_view name) {
  using bits_type = typename code<F>::bits_type;
  constexpr stored_format stored = stored_as(F);
  tensor const* t = file.find(name);
  if (stored.type && (t == nullptr || t->type != dtype::f32 || *stored.type == dtype::f32)) {
    const auto bits = file.require(name, *stored.type).elements<bits_type>();
    std::vector<code<F>> codes(bits.size());
    std::transform(bits.begin(), bits.end(), codes.begin(), [](bits_type b) { return code<F>::from_bits(b); });  // of TF32, the low bits go
    return codes;
  }
  const auto wide = file.require(name, dtype::f32).elements<f32_code>();
  std::vector<code<F>> narrow(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    narrow[i] = convert<F>(wide[i]);
    const bool exact = wide[i].is_nan() ? narrow[i].is_nan() : convert<format::f32>(narrow[i]) == wide[i];
    if (!exact)
      throw file_error(file.name(), name, fmt::format("values that {} holds exactly", stored.name), fmt::format("0x{:08X} at element {}", wide[i].to_bits(), i));
  }
  return narrow;
}
template std::vector<bf16_code> read_operand(tensor_file const&, std::string_view);
template std::vector<f16_code> read_operand(tensor_file const&, std::string_view);
template std::vector<e4m3fn_code> read_operand(tensor_file const&, std::string_view);
template std::vector<e5m2_code> read_operand(tensor_file const&, std::string_view);
template std::vector<tf32_code> read_operand(tensor_file const&, std::string_view);

std::vector<std::uint64_t> read_operand_bits(tensor_file const& file, std::string_view name, format f) {
  if (f == format::f64) throw file_error(file.name(), name, "a format that files hold", "FP64");
  return with_format(f, [&]<format F>() { return raw_codes<F>(file, name); });
}

gemm_shape read_gemm_shape(tensor_file const& file) {
  for (const char* name : {"a", "b"})
    if (file.find(name) == nullptr) throw file_error(file.name(), name, "an operand of a matrix product", "none");
  tensor const &a = *file.find("a"), &b = *file.find("b");
  if (a.rank() != 2) throw file_error(file.name(), "a", "shape [M, K]", shape_text(a.shape));
  if (b.rank() != 2 || b.shape[1] != a.shape[1]) throw file_error(file.name(), "b", fmt::format("shape [N, {}], K as in a", a.shape[1]), shape_text(b.shape));
  return {a.shape[0], b.shape[0], a.shape[1]};
}

namespace {

std::vector<f32_code> read_c(tensor_file const& file, std::int64_t m, std::int64_t n) {
  if (file.find("c") == nullptr) return {};
  return file.require("c", dtype::f32, {m, n}).elements<f32_code>();
}

}  // namespace

gemm_bits_operands read_gemm_bits(tensor_file const& file, machine_unit const& unit) {
  if (unit.output == format::f64) throw shape_error(fmt::format("unit {} takes FP64, which files do not hold: gemm_bits() of the library takes it", unit.name));
  gemm_bits_operands g;
  g.a = read_operand_bits(file, "a", unit.input);
  g.b = read_operand_bits(file, "b", unit.input_b);
  const gemm_shape shape = read_gemm_shape(file);
  g.m = shape.m;
  g.n = shape.n;
  g.k = shape.k;
  g.c = read_c(file, g.m, g.n);
  if (!unit.is_scaled()) return g;
  const std::int64_t scales = (g.k + unit.scale_block - 1) / unit.scale_block;
  const auto read_scales = [&](const char* name, std::int64_t lines) {
    std::vector<std::uint64_t> codes = read_operand_bits(file, name, unit.scale);
    if (tensor const& t = *file.find(name); t.shape != std::vector{lines, scales})
      throw file_error(file.name(), name, fmt::format("shape [{}, {}], a scale for {} products", lines, scales, unit.scale_block), shape_text(t.shape));
    return codes;
  };
  g.scale_a = read_scales("scale_a", g.m);
  g.scale_b = read_scales("scale_b", g.n);
  return g;
}

template <format In>
gemm_operands_of<In> read_gemm_operands(tensor_file const& file) {
  gemm_operands_of<In> g;
  g.a = read_operand<In>(file, "a");
  g.b = read_operand<In>(file, "b");
  const gemm_shape shape = read_gemm_shape(file);
  g.m = shape.m;
  g.n = shape.n;
  g.k = shape.k;
  g.c = read_c(file, g.m, g.n);
  return g;
}
template gemm_operands read_gemm_operands(tensor_file const&);
template gemm_operands_of<format::f16> read_gemm_operands(tensor_file const&);

}  // namespace stickybit
