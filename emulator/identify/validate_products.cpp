#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/shape.hpp"
#include "validators.hpp"

namespace stickybit::detail {
namespace {

constexpr int most_slices = 16;
constexpr std::string_view default_gemm_unit = "sm90.wgmma.bf16.f32";

std::string metadata_or(tensor_file const& file, std::string const& key, std::string fallback) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::move(fallback) : found->second;
}

/// The name of the unit that the file's metadata describes, whether we have it or not.
std::string described_unit(tensor_file const& file) {
  if (const std::string unit = metadata_or(file, "unit", ""); !unit.empty()) return unit;
  const std::string gpu = metadata_or(file, "gpu", ""), instruction = metadata_or(file, "instruction", "");
  const auto is = [&](std::string_view name) { return gpu.find(name) != gpu.npos; };
  const char* machine = is("V100") ? "sm70" : is("A100") ? "sm80" : is("A2") ? "sm86" : is("Ada") || is("L40") ? "sm89" : is("H100") || is("H200") ? "sm90" : is("B200") ? "sm100" : "unknown";
  const auto format_name = [&](std::string const& key) {
    std::string name = metadata_or(file, key, "unknown");
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return name == "fp32" ? std::string("f32") : name == "fp16" ? std::string("f16") : name;
  };
  const char* family = instruction.find("wgmma") != instruction.npos ? "wgmma" : "mma";
  return fmt::format("{}.{}.{}.{}", machine, family, format_name("input_format"), format_name("output_format"));
}

/// @pre rows ≤ operands.m
gemm_bits_problem first_rows(gemm_bits_operands const& operands, std::int64_t rows) {
  gemm_bits_problem p = operands.problem();
  const auto part = [&](auto const& all) { return operands.m == 0 ? std::span(all) : std::span(all).first(all.size() / std::size_t(operands.m) * std::size_t(rows)); };
  p.m = rows;
  p.a = part(operands.a);
  p.c = part(operands.c);
  p.scale_a = part(operands.scale_a);
  return p;
}

tensor as_result(dtype type, gemm_bits_problem const& p, std::vector<std::uint64_t> const& bits) {
  std::vector<f32_code> d(bits.size());
  std::transform(bits.begin(), bits.end(), d.begin(), [](std::uint64_t b) { return f32_code::from_bits(std::uint32_t(b)); });
  if (type == dtype::bf16) return make_tensor<bf16_code>(dtype::bf16, {p.m, p.n}, to_bf16(d));
  return make_tensor<f32_code>(dtype::f32, {p.m, p.n}, d);
}

/// The numbers of slices that cut K differently: each is the number it really gives.
std::vector<int> distinct_slices(std::int64_t k) {
  std::vector<int> distinct;
  for (int slices = 1; slices <= most_slices; ++slices)
    if (int(split_boundaries(k, slices).size()) - 1 == slices) distinct.push_back(slices);
  return distinct.empty() ? std::vector{1} : distinct;
}

/// The verdict for the numbers of slices that fit, all named in its note; without one, for that which comes closest on a few rows.
verdict judge_product(std::string const& name, tensor const& captured, machine_unit const& unit, gemm_bits_operands const& operands, validate_options const& options) {
  const gemm_bits_problem p = operands.problem();
  const auto judge_slices = [&](gemm_bits_problem const& part, tensor const& wanted, int slices, progress const& report) {
    return judge(name, wanted, as_result(captured.type, part, gemm_bits(unit, part, slices, options.how, report)), options.nan_bits);
  };
  const gemm_bits_problem few = first_rows(operands, std::min<std::int64_t>(operands.m, 4));
  tensor few_captured{captured.type, {few.m, few.n}, captured.bytes};
  few_captured.bytes.resize(std::size_t(few.m * few.n) * size_bytes(captured.type));

  std::string fitting;
  int closest = 1;
  std::int64_t closest_mismatches = few.m * few.n + 1;
  verdict result;
  for (int slices : distinct_slices(p.k)) {
    const std::int64_t mismatches = judge_slices(few, few_captured, slices, {}).mismatches;
    if (mismatches < closest_mismatches) {
      closest = slices;
      closest_mismatches = mismatches;
    }
    if (mismatches != 0) continue;
    verdict v = judge_slices(p, captured, slices, options.report);
    if (v.mismatches != 0) continue;
    fitting += fmt::format("{}{}", fitting.empty() ? "" : ", ", slices);
    result = std::move(v);
  }
  if (fitting.empty()) result = judge_slices(p, captured, closest, options.report);
  result.note = fitting.empty() ? fmt::format("no split of K into 1 to {} slices fits; closest {}", most_slices, closest) : fmt::format("split-k {}", fitting);
  return result;
}

std::vector<verdict> validate_gemm_of(tensor_file const& file, machine_unit const& unit, validate_options const& options) {
  const gemm_bits_operands p = read_gemm_bits(file, unit);
  std::vector<verdict> verdicts;
  for (named_tensor const& t : file.tensors()) {
    if (t.name == "a" || t.name == "b" || t.name == "c" || (unit.is_scaled() && (t.name == "scale_a" || t.name == "scale_b"))) continue;
    const auto ends_with = [&](std::string_view end) { return t.name == end || t.name.ends_with(fmt::format(".{}", end)); };
    const bool f32 = ends_with("d_f32") || (ends_with("d") && t.value.type == dtype::f32);
    const bool bf16 = ends_with("d_bf16") || (ends_with("d") && t.value.type == dtype::bf16);
    if (!f32 && !bf16) {
      verdicts.push_back(skipped(t.name, "expected a result named d, <producer>.d_f32 or <producer>.d_bf16"));
      continue;
    }
    tensor const& captured = file.require(t.name, f32 ? dtype::f32 : dtype::bf16, {p.m, p.n});
    verdicts.push_back(judge_product(t.name, captured, unit, p, options));
    verdicts.back().place = f32 ? 0 : 1;
  }
  return verdicts;
}

/// c[i] becomes the inner product of row i of a and b with it.
/// @throws file_error where scales are missing, of another shape or type
void multiply_rows(machine_unit const& unit, tensor_file const& file, std::int64_t k, std::vector<f32_code>& c) {
  const std::vector<std::uint64_t> a = read_operand_bits(file, "a", unit.input), b = read_operand_bits(file, "b", unit.input_b);
  const std::int64_t scales = unit.is_scaled() ? (k + unit.scale_block - 1) / unit.scale_block : 0;
  std::vector<std::uint64_t> scale_a, scale_b;
  for (auto const& [name, to] : {std::pair{"scale_a", &scale_a}, std::pair{"scale_b", &scale_b}}) {
    if (scales == 0) continue;
    (void)file.require(name, dtype::f32, {std::int64_t(c.size()), scales});
    *to = read_operand_bits(file, name, unit.scale);
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < std::int64_t(c.size()); ++i) {
    const auto row = [i](std::vector<std::uint64_t> const& m, std::int64_t length) { return std::span<std::uint64_t const>(m).subspan(std::size_t(i * length), std::size_t(length)); };
    const inner_product_operands x{row(a, k), row(b, k), row(scale_a, scales), row(scale_b, scales), c[std::size_t(i)].to_bits()};
    c[std::size_t(i)] = f32_code::from_bits(std::uint32_t(evaluate(unit, x)));
  }
}

}  // namespace

std::vector<verdict> validate_gemm(tensor_file const& file, validate_options const& options) {
  machine_unit const& unit = unit_named(options.unit ? *options.unit : metadata_or(file, "unit", std::string(default_gemm_unit)));
  return validate_gemm_of(file, unit, options);
}

std::vector<verdict> validate_inner_products(tensor_file const& file, validate_options const& options) {
  const std::string name = options.unit ? *options.unit : described_unit(file);
  machine_unit const* unit = nullptr;
  try {
    unit = &unit_named(name);
  } catch (unknown_name const&) {
    if (options.unit) throw;
    return {skipped("d", fmt::format("no unit '{}'", name))};
  }
  tensor const &ta = *file.find("a"), &tb = *file.find("b");
  if (ta.rank() != 2) throw file_error(file.name(), "a", "shape [n, K]", shape_text(ta.shape));
  if (unit->output == format::f64) return {skipped("d", "files hold no FP64")};
  if (tb.shape != ta.shape) throw file_error(file.name(), "b", "a's shape, " + shape_text(ta.shape), shape_text(tb.shape));
  const std::int64_t count = ta.shape[0];
  tensor const& d = file.require("d", dtype::f32, {count});
  std::vector<f32_code> c(std::size_t(count), f32_code::zero());
  const bool without_c = metadata_or(file, "instruction", "").find("c = 0") != std::string::npos;
  if (!without_c) c = file.require("c", dtype::f32, {count}).elements<f32_code>();
  multiply_rows(*unit, file, ta.shape[1], c);
  verdict v = judge("d", d, make_tensor<f32_code>(dtype::f32, {count}, c), options.nan_bits);
  v.note = name;
  return {v};
}

}  // namespace stickybit::detail
