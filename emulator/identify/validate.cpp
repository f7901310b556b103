#include "stickybit/identify/validate.hpp"

#include <fmt/format.h>

#include "stickybit/bias/compare.hpp"
#include "validators.hpp"

namespace stickybit {
namespace detail {

verdict judge(std::string name, tensor const& captured, tensor const& emulated, bool nan_bits) {
  const comparison c = compare(captured, emulated, nan_bits);
  verdict v;
  v.tensor = std::move(name);
  v.total = c.total;
  v.mismatches = c.mismatches;
  if (c.first)
    v.first = fmt::format("first at {}: captured {}, emulated {}", position_text(captured.shape, c.first->index), code_text(captured.type, c.first->left),
                          code_text(captured.type, c.first->right));
  return v;
}

verdict skipped(std::string name, std::string reason) {
  verdict v;
  v.tensor = std::move(name);
  v.skipped = std::move(reason);
  return v;
}

}  // namespace detail

std::vector<verdict> validate(tensor_file const& file, validate_options const& options) {
  const auto has = [&](std::string_view name) { return file.find(name) != nullptr; };
  std::vector<verdict> verdicts;
  if (has("q") && has("k") && has("v")) {
    verdicts = detail::validate_attention(file, options);
  } else if (has("a") && has("b")) {
    tensor const* d = file.find("d");
    verdicts = d != nullptr && d->rank() == 1 ? detail::validate_inner_products(file, options) : detail::validate_gemm(file, options);
  } else {
    throw file_error(file.name(), "tensors q, k, v (attention), a, b and results (GEMM), or a, b, c, d (inner products)",
                     file.tensors().empty() ? "no tensors" : fmt::format("{} tensors, the first '{}'", file.tensors().size(), file.tensors().front().name));
  }
  for (unread_tensor const& t : file.unread()) verdicts.push_back(detail::skipped(t.name, fmt::format("type {} is not read", t.type_name)));
  return verdicts;
}

}  // namespace stickybit
