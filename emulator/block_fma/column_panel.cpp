#include "stickybit/block_fma/column_panel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fast_blocks.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/rounding/ieee_environment.hpp"
#include "unit_forms.hpp"

namespace stickybit {
namespace {

constexpr std::int64_t column_group = detail::column_group;

}  // namespace

column_panel::column_panel(format input, code_array codes, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride, operand_scales const& scales)
    : input_(input), k_count_(k_count), n_count_(n_count), k_padded_(detail::round_up(k_count, detail::panel_padding)) {
  if (!detail::is_operand_format(input)) throw shape_error(fmt::format("column_panel: {} is no format of a tensor core's operands", traits_of(input).name));
  const auto size = std::size_t(k_padded_ * detail::round_up(n_count, column_group));
  const std::uint64_t mask = detail::code_mask(input);
  values_.reserve(size);
  exponents_.reserve(size);
  const auto fill = [&]<class T>(detail::aligned_array<T>& to_codes) {
    to_codes.reserve(size);
    std::fill_n(to_codes.data(), size, T{0});
    codes.visit([&](auto const* data) {
      for (std::int64_t group = 0; group < n_count; group += column_group)
        for (std::int64_t n = 0; n < std::min(column_group, n_count - group); ++n) {
          auto const* from = data + (group + n) * n_stride;
          T* to = to_codes.data() + index(0, group) + n;
          for (std::int64_t k = 0; k < k_count; ++k) to[k * column_group] = T(from[k * k_stride] & mask);
        }
    });
    const host::ieee_environment ieee;  // subnormals are numbers
    detail::take_columns_apart(input, to_codes.data(), size, values_.data(), exponents_.data());
  };
  if (input == format::tf32) fill(wide_codes_);
  else fill(codes_);
  if (input == format::e4m3fn) {
    f16_exponents_.reserve(size);
    for (std::size_t i = 0; i < size; ++i) f16_exponents_.data()[i] = detail::exponent_in_f16(codes_.data()[i], exponents_.data()[i]);
  }
  if (input == format::e2m1) {
    halves_.reserve(size);
    for (std::size_t i = 0; i < size; ++i) halves_.data()[i] = detail::e2m1_halves(codes_.data()[i]);
  }
  if (scales.block > 0) take_scales(scales);
}

void column_panel::take_scales(operand_scales const& scales) {
  scale_format_ = scales.of;
  scale_block_ = scales.block;
  scale_count_ = detail::round_up(k_padded_, scales.block) / scales.block;
  const auto size = std::size_t(scale_count_ * detail::round_up(n_count_, column_group));
  const std::int64_t given = detail::round_up(k_count_, scales.block) / scales.block;
  scale_codes_.reserve(size);
  scale_exponents_.reserve(size);
  scale_values_.reserve(size);
  std::fill_n(scale_codes_.data(), size, std::uint16_t(detail::scale_one(scales.of)));
  for (std::int64_t n = 0; n < n_count_; ++n)
    for (std::int64_t block = 0; block < given; ++block)
      scale_codes_.data()[scale_index(block, n)] = std::uint16_t(scales.codes[std::size_t(block * scales.k_stride + n * scales.line_stride)] & detail::code_mask(scales.of));
  for (std::size_t i = 0; i < size; ++i) {
    const detail::scale_number number = detail::scale_number_of(scales.of, scale_codes_.data()[i]);
    scale_exponents_.data()[i] = number.exponent;
    scale_values_.data()[i] = number.value;
  }
}

}  // namespace stickybit
