#include "stickybit/format/value.hpp"
#include "stickybit/softmax/online_softmax.hpp"

namespace stickybit {

f32_code scale_log2_of(double softmax_scale) noexcept {
  constexpr double log2_e = 0x1.71547652b82fep+0;  // M_LOG2E
  return code_of(static_cast<float>(static_cast<double>(static_cast<float>(softmax_scale)) * log2_e));
}

}  // namespace stickybit
