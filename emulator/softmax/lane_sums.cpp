#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "softmax/lane_sums.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/softmax/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::host::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
std::size_t add_eights(std::uint32_t const*, std::size_t, std::uint32_t*) { return 0; }
#else
namespace hn = hwy::HWY_NAMESPACE;

/// Whole groups of eight, as long as everything is +0, a positive normal number or +infinity: sums of such are never subnormal nor
/// NaN, so that plain IEEE additions are right in either mode.  @returns elements taken
std::size_t add_eights(std::uint32_t const* x, std::size_t count, std::uint32_t* sums) {
  const hn::CappedTag<float, 4> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const auto zero = hn::Zero(di), one_below_normal = hn::Set(di, 0x007fffff), infinity = hn::Set(di, 0x7f800000);
  // +0, or 00800000 to 7f800000 as a signed integer.
  const auto is_plain = [&](auto bits) { return hn::Or(hn::Eq(bits, zero), hn::AndNot(hn::Gt(bits, infinity), hn::Gt(bits, one_below_normal))); };
  auto sum = hn::LoadU(du, sums);
  if (!hn::AllTrue(di, is_plain(hn::BitCast(di, sum)))) return 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto low = hn::LoadU(du, x + i), high = hn::LoadU(du, x + i + 4);
    if (!hn::AllTrue(di, hn::And(is_plain(hn::BitCast(di, low)), is_plain(hn::BitCast(di, high))))) break;
    const auto even = hn::BitCast(df, hn::ConcatEven(du, high, low)), odd = hn::BitCast(df, hn::ConcatOdd(du, high, low));
    sum = hn::BitCast(du, hn::Add(hn::Add(hn::BitCast(df, sum), even), odd));
  }
  hn::StoreU(sum, du, sums);
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
  std::size_t i = HWY_DYNAMIC_DISPATCH(add_eights)(reinterpret_cast<std::uint32_t const*>(x.data()), x.size(), reinterpret_cast<std::uint32_t*>(sums.data()));
  for (; i < x.size(); ++i) {
    f32_code& sum = sums[lane_of(i)];
    sum = s == subnormals::flushed ? add_ftz(sum, x[i]) : add(sum, x[i]);
  }
}

}  // namespace stickybit::host
#endif
