#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

// Instructions differ in words of their name alone. nvcc puts a constant array of characters into the text of an asm statement (operand
// constraint "C"), so one statement here serves a family of instructions.

namespace stickybit::gpu {

/// Element types as PTX spells them.
struct ptx_f16 { static constexpr char text[] = "f16"; };
struct ptx_bf16 { static constexpr char text[] = "bf16"; };
struct ptx_tf32 { static constexpr char text[] = "tf32"; };
struct ptx_f32 { static constexpr char text[] = "f32"; };
struct ptx_e4m3 { static constexpr char text[] = "e4m3"; };
struct ptx_e5m2 { static constexpr char text[] = "e5m2"; };

template <class Type> inline constexpr int ptx_bytes = 4;
template <> inline constexpr int ptx_bytes<ptx_f16> = 2;
template <> inline constexpr int ptx_bytes<ptx_bf16> = 2;
template <> inline constexpr int ptx_bytes<ptx_e4m3> = 1;
template <> inline constexpr int ptx_bytes<ptx_e5m2> = 1;

/// Text put together in a constant expression.
struct constant_text {
  char data[768]{};
  std::size_t size = 0;

  constexpr constant_text& operator<<(char const* more) {
    for (; *more != '\0'; ++more) data[size++] = *more;
    return *this;
  }
  constexpr constant_text& operator<<(int number) {
    if (number >= 10) *this << number / 10;
    data[size++] = char('0' + number % 10);
    return *this;
  }
};

template <class Holder, class Indices>
struct text_array_of;
template <class Holder, std::size_t... I>
struct text_array_of<Holder, std::index_sequence<I...>> {
  static constexpr char text[] = {Holder::value.data[I]..., '\0'};
};
/// The plain array that "C" asks for. Holder::value is a constant_text.
template <class Holder>
using text_array = text_array_of<Holder, std::make_index_sequence<Holder::value.size>>;

}  // namespace stickybit::gpu
