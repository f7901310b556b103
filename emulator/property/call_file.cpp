#include "call_file.hpp"

#include <fmt/format.h>

namespace stickybit::detail {

tensor_file call_file(attention_problem const& p) {
  tensor_file file;
  file.metadata["layout"] = std::string(name_of(p.layout));
  file.metadata["causal"] = p.causal ? "1" : "0";
  file.metadata["softmax_scale"] = fmt::format("{}", p.softmax_scale);
  file.metadata["sm_count"] = fmt::format("{}", p.sm_count);
  file.add("q", make_tensor<bf16_code>(dtype::bf16, p.query_shape(), p.q));
  file.add("k", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), p.k));
  file.add("v", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), p.v));
  if (!p.d_o.empty()) file.add("do", make_tensor<bf16_code>(dtype::bf16, p.query_shape(), p.d_o));
  return file;
}

void add_results(tensor_file& file, attention_problem const& p, kernel_results const& r, std::string const& producer) {
  const auto add = [&](const char* name, std::vector<bf16_code> const& codes, std::vector<std::int64_t> const& shape) {
    if (!codes.empty()) file.add(fmt::format("{}{}", producer, name), make_tensor<bf16_code>(dtype::bf16, shape, codes));
  };
  add(".o", r.o, p.query_shape());
  if (!r.lse.empty()) file.add(fmt::format("{}.lse", producer), make_tensor<f32_code>(dtype::f32, p.row_shape(), r.lse));
  add(".dq", r.dq, p.query_shape());
  add(".dk", r.dk, p.key_shape());
  add(".dv", r.dv, p.key_shape());
}

}  // namespace stickybit::detail
