// The fast form of block_arithmetic::fma_chain: the host's own FMA, several columns at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/fast_chain.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "fast_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

void fma(double const* a, double const* b, std::size_t stride, std::size_t length, std::size_t count, double* c) {
  std::size_t first = 0;
#if HWY_NATIVE_FMA && HWY_HAVE_FLOAT64
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  const auto nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<decltype(d)>(), std::uint64_t{0x7fffffffffffffff}));
  for (; first + 2 * hn::Lanes(d) <= count; first += 2 * hn::Lanes(d)) {
    auto low = hn::LoadU(d, c + first), high = hn::LoadU(d, c + first + hn::Lanes(d));
    for (std::size_t k = 0; k < length; ++k) {
      const auto x = hn::Set(d, a[k]);
      low = hn::MulAdd(x, hn::LoadU(d, b + k * stride + first), low);
      high = hn::MulAdd(x, hn::LoadU(d, b + k * stride + first + hn::Lanes(d)), high);
    }
    hn::StoreU(hn::IfThenElse(hn::IsNaN(low), nan, low), d, c + first);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(high), nan, high), d, c + first + hn::Lanes(d));
  }
#endif
  for (; first < count; ++first) {
    double sum = c[first];
    for (std::size_t k = 0; k < length; ++k) sum = std::fma(a[k], b[k * stride + first], sum);
    c[first] = std::isnan(sum) ? std::bit_cast<double>(std::uint64_t{0x7fffffffffffffff}) : sum;
  }
}

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(fma);

void accumulate_fma(double const* a, double const* b, std::size_t stride, std::size_t length, std::size_t count, double* c) {
  HWY_DYNAMIC_DISPATCH(fma)(a, b, stride, length, count, c);
}

}  // namespace stickybit::detail
#endif
