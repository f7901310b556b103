#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/format/code.hpp"

namespace stickybit {

/// Codes of any format where they lie, 1, 2, 4 or 8 bytes each, for units that are known at run time only. Somebody else owns them.
class code_array {
 public:
  constexpr code_array() noexcept = default;
  template <std::unsigned_integral T>
  constexpr code_array(T const* data, std::size_t size) noexcept : data_(data), size_(size), bytes_(int(sizeof(T))) {}
  template <format F>
  constexpr code_array(code<F> const* data, std::size_t size) noexcept : data_(data), size_(size), bytes_(int(sizeof(code<F>))) {}
  template <class T>
  constexpr code_array(std::span<T> all) noexcept : code_array(static_cast<T const*>(all.data()), all.size()) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  constexpr code_array(std::vector<T> const& all) noexcept : code_array(all.data(), all.size()) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  /// @pre first ≤ size()
  [[nodiscard]] code_array from(std::size_t first) const noexcept {
    code_array rest = *this;
    if (first != 0) rest.data_ = static_cast<std::byte const*>(data_) + first * std::size_t(bytes_);
    rest.size_ -= first;
    return rest;
  }
  /// f(pointer to the codes as unsigned integers). A code is a standard-layout class whose one member is its bits.
  template <class F>
  decltype(auto) visit(F&& f) const {
    switch (bytes_) {
      case 1: return f(static_cast<std::uint8_t const*>(data_));
      case 2: return f(static_cast<std::uint16_t const*>(data_));
      case 4: return f(static_cast<std::uint32_t const*>(data_));
      default: return f(static_cast<std::uint64_t const*>(data_));
    }
  }
  /// @pre i < size()
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const noexcept {
    return visit([i](auto const* data) { return std::uint64_t{data[i]}; });
  }

 private:
  void const* data_ = nullptr;
  std::size_t size_ = 0;
  int bytes_ = 1;
};

/// Scales of one operand, one for `block` products: scale(k / block, line) = codes[k / block · k_stride + line · line_stride], where a line is a
/// row of A or a column of B.
struct operand_scales {
  code_array codes;
  format of = format::e8m0;
  int block = 0;  ///< 0: none
  std::int64_t k_stride = 1, line_stride = 0;
};

/// Rows of A as raw codes: element (i, k) is codes[i · stride + k].
struct raw_rows {
  code_array codes;
  std::int64_t rows = 0, columns = 0, stride = 0;
  operand_scales scales{};  ///< begin with the first of the columns
};

}  // namespace stickybit
