#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace testing {

/// An array between guard elements, `offset` elements after the start of an allocation: any alignment.
template <class Code>
class guarded_array {
 public:
  guarded_array(std::size_t size, std::size_t offset) : size_(size), begin_(margin + offset), all_(begin_ + size + margin, guard()) {}
  guarded_array(std::span<Code const> values, std::size_t offset) : guarded_array(values.size(), offset) {
    std::copy(values.begin(), values.end(), all_.begin() + std::ptrdiff_t(begin_));
  }
  [[nodiscard]] std::span<Code> values() noexcept { return std::span(all_).subspan(begin_, size_); }
  [[nodiscard]] bool guards_are_whole() const noexcept {
    const auto is_guard = [](Code c) { return c == guard(); };
    const auto inside = all_.begin() + std::ptrdiff_t(begin_);
    return std::all_of(all_.begin(), inside, is_guard) && std::all_of(inside + std::ptrdiff_t(size_), all_.end(), is_guard);
  }

 private:
  static constexpr std::size_t margin = 20;
  static constexpr Code guard() noexcept { return Code::from_bits(static_cast<typename Code::bits_type>(0xdeadbeef)); }
  std::size_t size_, begin_;
  std::vector<Code> all_;
};

}  // namespace testing
