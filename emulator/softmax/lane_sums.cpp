#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "softmax/lane_sums.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/softmax/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::host::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
std::size_t add_eights(std::uint32_t const*, std::size_t, std::uint32_t*) { return 0; }
#else
namespace hn = hwy::HWY_NAMESPACE;

/// Whole groups of eight, as long as operands and results are zeros, normal numbers or infinities: then plain IEEE additions are right
/// in either mode. (A sum next to 2^-126 is exact: nothing was rounded up to it.)  @returns elements taken
std::size_t add_eights(std::uint32_t const* x, std::size_t count, std::uint32_t* sums) {
  const hn::CappedTag<float, 4> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const auto infinity = hn::Set(di, 0x7f800000), largest_subnormal = hn::Set(di, 0x007fffff);
  const auto is_plain = [&](auto number) {
    const auto magnitude = hn::BitCast(di, hn::Abs(number));
    return hn::Or(hn::Eq(magnitude, hn::Zero(di)), hn::AndNot(hn::Gt(magnitude, infinity), hn::Gt(magnitude, largest_subnormal)));
  };
  auto sum = hn::BitCast(df, hn::LoadU(du, sums));
  if (!hn::AllTrue(di, is_plain(sum))) return 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto low = hn::LoadU(du, x + i), high = hn::LoadU(du, x + i + 4);
    const auto even = hn::BitCast(df, hn::ConcatEven(du, high, low)), odd = hn::BitCast(df, hn::ConcatOdd(du, high, low));
    const auto first = hn::Add(sum, even), second = hn::Add(first, odd);
    const auto operands = hn::And(is_plain(even), is_plain(odd));
    if (!hn::AllTrue(di, hn::And(operands, hn::And(is_plain(first), is_plain(second))))) break;
    sum = second;
  }
  hn::StoreU(hn::BitCast(du, sum), du, sums);
  return i;
}
#endif

}  // namespace stickybit::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::host {

HWY_EXPORT(add_eights);

void add_in_lanes(std::span<f32_code const> x, std::array<f32_code, 4>& sums, subnormals s) noexcept {
  static_assert(sizeof(f32_code) == sizeof(std::uint32_t));
  for (std::size_t i = 0; i < x.size();) {
    i += HWY_DYNAMIC_DISPATCH(add_eights)(reinterpret_cast<std::uint32_t const*>(x.data() + i), x.size() - i, reinterpret_cast<std::uint32_t*>(sums.data()));
    for (const std::size_t end = std::min(i + 8, x.size()); i < end; ++i) {  // eight that the vectors do not take, or the rest
      f32_code& sum = sums[lane_of(i)];
      sum = s == subnormals::flushed ? add_ftz(sum, x[i]) : add(sum, x[i]);
    }
  }
}

}  // namespace stickybit::host
#endif
