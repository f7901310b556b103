#include "stickybit/gemm/operands.hpp"

#include <fmt/format.h>

#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {

std::vector<bf16_code> read_bf16_operand(tensor_file const& file, std::string_view name) {
  tensor const* t = file.find(name);
  if (t == nullptr || t->type != dtype::f32) return file.require(name, dtype::bf16).elements<bf16_code>();
  const auto wide = t->elements<f32_code>();
  std::vector<bf16_code> narrow(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    narrow[i] = bf16_code::from_bits(std::uint16_t(wide[i].to_bits() >> 16));
    if (widen(narrow[i]) != wide[i])
      throw file_error(file.name(), name, "values that BF16 holds exactly", fmt::format("0x{:08X} at element {}", wide[i].to_bits(), i));
  }
  return narrow;
}

gemm_operands read_gemm_operands(tensor_file const& file) {
  gemm_operands g;
  g.a = read_bf16_operand(file, "a");
  g.b = read_bf16_operand(file, "b");
  tensor const &a = *file.find("a"), &b = *file.find("b");
  if (a.rank() != 2) throw file_error(file.name(), "a", "shape [M, K]", shape_text(a.shape));
  if (b.rank() != 2 || b.shape[1] != a.shape[1]) throw file_error(file.name(), "b", fmt::format("shape [N, {}], K as in a", a.shape[1]), shape_text(b.shape));
  g.m = a.shape[0];
  g.n = b.shape[0];
  g.k = a.shape[1];
  if (file.find("c") != nullptr) g.c = file.require("c", dtype::f32, {g.m, g.n}).elements<f32_code>();
  return g;
}

}  // namespace stickybit
