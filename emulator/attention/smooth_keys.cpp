#include "stickybit/attention/smooth_keys.hpp"

#include <bit>

#include "stickybit/rounding/arithmetic.hpp"

namespace stickybit {

attention_problem smooth_keys(attention_problem p, mask_alignment mask, subnormals scalars) {
  if (p.queries == 0) return p;
  const auto visible = std::int64_t(visible_keys(mask, std::size_t(p.queries - 1), std::size_t(p.queries), std::size_t(p.keys)));
  const f32_code count = f32_code::from_bits(std::bit_cast<std::uint32_t>(static_cast<float>(visible)));
  if (visible == 0) return p;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.key_heads; ++head)
      for (std::int64_t j = 0; j < p.head_dim; ++j) {
        const auto at = [&](std::int64_t key) -> bf16_code& { return p.k[std::size_t(p.key_strides().offset(b, head, key) + j)]; };
        f32_code sum = f32_code::zero();
        for (std::int64_t key = 0; key < visible; ++key) sum = add(sum, widen(at(key)), scalars);
        const f32_code mean = div(sum, count, scalars);
        for (std::int64_t key = 0; key < p.keys; ++key) at(key) = convert<format::bf16>(add(widen(at(key)), mean.negated(), scalars));
      }
  return p;
}

}  // namespace stickybit
