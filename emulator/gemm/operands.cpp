#include "stickybit/gemm/operands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stickybit/rounding/convert.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {

template <format F>
std::vector<code<F>> read_operand(tensor_file const& file, std::string_view name) {
  constexpr bool bf16 = F == format::bf16;
  tensor const* t = file.find(name);
  if (t == nullptr || t->type != dtype::f32) {
    const auto bits = file.require(name, bf16 ? dtype::bf16 : dtype::f16).elements<std::uint16_t>();
    std::vector<code<F>> codes(bits.size());
    std::transform(bits.begin(), bits.end(), codes.begin(), [](std::uint16_t b) { return code<F>::from_bits(b); });
    return codes;
  }
  const auto wide = t->elements<f32_code>();
  std::vector<code<F>> narrow(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    narrow[i] = convert<F>(wide[i]);
    const bool exact = wide[i].is_nan() || convert<format::f32>(narrow[i]) == wide[i];
    if (!exact)
      throw file_error(file.name(), name, bf16 ? "values that BF16 holds exactly" : "values that FP16 holds exactly", fmt::format("0x{:08X} at element {}", wide[i].to_bits(), i));
  }
  return narrow;
}
template std::vector<bf16_code> read_operand(tensor_file const&, std::string_view);
template std::vector<f16_code> read_operand(tensor_file const&, std::string_view);

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
