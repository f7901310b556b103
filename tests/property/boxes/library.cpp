// An attention kernel in a library, plain and slow, and what can go wrong with one: the environment variable STICKYBIT_KERNEL_BOX says what.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "stickybit/property/kernel_abi.h"

namespace {

float wide(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }
std::uint16_t narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
bool is(const char* what) {
  const char* box = std::getenv("STICKYBIT_KERNEL_BOX");
  return box != nullptr && std::strcmp(box, what) == 0;
}

int forward(void*, stickybit_kernel_call const* c, std::uint16_t* o, std::uint32_t* lse) {
  if (is("crash")) std::abort();
  if (is("exit")) std::exit(3);
  if (is("hang"))
    for (volatile int i = 0; i == 0;) {
    }
  if (is("status")) return 17;
  if (is("unsupported")) return STICKYBIT_KERNEL_UNSUPPORTED;
  if (is("write-input")) const_cast<std::uint16_t*>(c->q)[0] = 0;
  if (is("read-past")) o[0] = c->k[c->batch * c->keys * c->key_heads * c->head_dim + 8];
  if (is("write-past")) o[c->batch * c->queries * c->heads * c->head_dim + 8] = 0;
  if (is("write-before")) o[-1] = 0;
  std::vector<double> p(static_cast<std::size_t>(c->keys));
  for (std::int64_t b = 0; b < c->batch; ++b)
    for (std::int64_t h = 0; h < c->heads; ++h)
      for (std::int64_t i = 0; i < c->queries; ++i) {
        if (is("unwritten") && i == c->queries - 1) continue;
        const std::int64_t kh = h / (c->heads / c->key_heads);
        const auto at = [&](std::int64_t heads, std::int64_t rows, std::int64_t head, std::int64_t row) { return ((b * rows + row) * heads + head) * c->head_dim; };
        const std::int64_t visible = c->causal != 0 ? std::min(std::max<std::int64_t>(i + 1 + c->keys - c->queries, 0), c->keys) : c->keys;
        double largest = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          double s = 0;
          for (std::int64_t k = 0; k < c->head_dim; ++k) s += double(wide(c->q[at(c->heads, c->queries, h, i) + k])) * wide(c->k[at(c->key_heads, c->keys, kh, j) + k]);
          p[std::size_t(j)] = s * c->softmax_scale;
          largest = std::fmax(largest, p[std::size_t(j)]);
        }
        for (std::int64_t j = 0; j < visible; ++j) sum += p[std::size_t(j)] = std::exp(p[std::size_t(j)] - largest);
        for (std::int64_t k = 0; k < c->head_dim; ++k) {
          double x = 0;
          for (std::int64_t j = 0; j < visible; ++j) x += p[std::size_t(j)] * wide(c->v[at(c->key_heads, c->keys, kh, j) + k]);
          o[at(c->heads, c->queries, h, i) + k] = visible == 0 ? 0 : narrow(float(x / sum));
        }
        lse[(b * c->heads + h) * c->queries + i] = std::bit_cast<std::uint32_t>(visible == 0 ? -INFINITY : float(largest + std::log(sum)));
      }
  return 0;
}

}  // namespace

extern "C" stickybit_kernel const* stickybit_kernel_under_test(void) {
  static const stickybit_kernel kernel{STICKYBIT_KERNEL_VERSION, 1, nullptr, forward, nullptr};
  return &kernel;
}
