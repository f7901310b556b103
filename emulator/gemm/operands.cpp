#include "stickybit/gemm/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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
  switch (f) {
    case format::bf16: return raw_codes<format::bf16>(file, name);
    case format::f16: return raw_codes<format::f16>(file, name);
    case format::tf32: return raw_codes<format::tf32>(file, name);
    case format::e4m3fn: return raw_codes<format::e4m3fn>(file, name);
    case format::e5m2: return raw_codes<format::e5m2>(file, name);
    case format::e4m3fnuz: return raw_codes<format::e4m3fnuz>(file, name);
    case format::e5m2fnuz: return raw_codes<format::e5m2fnuz>(file, name);
    case format::e8m0: return raw_codes<format::e8m0>(file, name);
    case format::e2m1: return raw_codes<format::e2m1>(file, name);
    case format::e3m2: return raw_codes<format::e3m2>(file, name);
    case format::e2m3: return raw_codes<format::e2m3>(file, name);
    case format::f32: return raw_codes<format::f32>(file, name);
    case format::f64: break;
  }
  throw file_error(file.name(), name, "a format that files hold", "FP64");
}

template <format In>
gemm_operands_of<In> read_gemm_operands(tensor_file const& file) {
  gemm_operands_of<In> g;
  g.a = read_operand<In>(file, "a");
  g.b = read_operand<In>(file, "b");
  tensor const &a = *file.find("a"), &b = *file.find("b");
  if (a.rank() != 2) throw file_error(file.name(), "a", "shape [M, K]", shape_text(a.shape));
  if (b.rank() != 2 || b.shape[1] != a.shape[1]) throw file_error(file.name(), "b", fmt::format("shape [N, {}], K as in a", a.shape[1]), shape_text(b.shape));
  g.m = a.shape[0];
  g.n = b.shape[0];
  g.k = a.shape[1];
  if (file.find("c") != nullptr) g.c = file.require("c", dtype::f32, {g.m, g.n}).template elements<f32_code>();
  return g;
}
template gemm_operands read_gemm_operands(tensor_file const&);
template gemm_operands_of<format::f16> read_gemm_operands(tensor_file const&);

}  // namespace stickybit
