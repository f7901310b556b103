#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>

typedef struct CUstream_st* cudaStream_t;  // as cuda_runtime.h has it, which callers from plain C++ need not have

// BF16 attention on Ampere and Hopper GPUs, head dimensions 64 and 128, whose every output bit the emulator states: schedules
// `stickybit-sm80` and `stickybit-sm90`. attention.h has the same for C.
//
//   S = Q Kᵀ, P = softmax(s S), O = P V;  dP = dO Vᵀ, delta = rowsum(dO ∘ O), dS = P ∘ (dP − delta), dV = Pᵀ dO, dK = s dSᵀ Q, dQ = s dS K

namespace stickybit::kernel {

/// A call that no kernel of ours takes: what it asks, and what is needed.
class unsupported_call : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// BF16 codes in device memory, [batch, rows, heads, head_dim]; the last dimension is contiguous, the others as the strides say.
/// Strides are in elements, multiples of 8; data is aligned to 16 bytes.
template <class Code>
struct tensor {
  Code* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
};
using input_tensor = tensor<std::uint16_t const>;
using output_tensor = tensor<std::uint16_t>;

/// How the published `beta` fix moves a maximum that more than one visible key has; the fields are those of the emulator's tie_parameters.
struct tie_numbers {
  float beta = 2;
  float tolerance = 1e-3f;  ///< natural units of s·S
  bool published = false;   ///< ties counted inside a block of keys, and m' unbounded, as in the paper's code; else over the blocks so far
};

/// Sizes and what is common to forward and backward.
struct attention_shape {
  std::int64_t batch = 1, queries = 0, keys = 0;  ///< rows of Q, dQ, O; rows of K and V
  std::int64_t heads = 1, key_heads = 1;          ///< heads is a multiple of key_heads; query head h reads key head h / (heads / key_heads)
  std::int64_t head_dim = 0;                      ///< 64 or 128
  double softmax_scale = 0;                       ///< s > 0; rounded to FP32
  bool causal = false;                            ///< key c is visible to row r iff c <= r + keys − queries
};

/// Fixes of the forward pass, named as in the emulator.
struct forward_fixes {
  bool subtract_first = false;
  bool two_row_sums = false;
  bool beta = false;
  tie_numbers tie = {};
};

struct forward_call {
  attention_shape shape;
  forward_fixes fixes;
  input_tensor q, k, v;
  output_tensor o;
  output_tensor o_low = {};  ///< if data is not null: BF16(O − BF16(O)), which `delta-hilo` needs, O in FP32 before its cast
  float* lse = nullptr;      ///< [batch, heads, queries], natural logarithm; may be null
};

struct backward_call {
  attention_shape shape;
  bool deterministic = true;  ///< false: parts of dQ are added in any order; dK and dV keep their bits
  input_tensor q, k, v, o, d_o;
  input_tensor o_low = {};     ///< if data is not null: delta from the stored O and from o_low (`delta-hilo`)
  float const* lse = nullptr;  ///< [batch, heads, queries]
  output_tensor dq, dk, dv;    ///< dk, dv: [batch, keys, key_heads, head_dim]
  void* workspace = nullptr;   ///< backward_workspace_bytes() bytes of device memory, aligned to 256
};

/// Which kernel runs. The two compute different bits: schedules `stickybit-sm80`, `stickybit-sm90`.
enum class kernel_choice : std::uint8_t {
  automatic,  ///< sm90 where the GPU has it, else sm80. The backward pass is sm80's
  sm80,       ///< mma.sync: compute capability 8.x and 9.x
  sm90,       ///< wgmma: compute capability 9.0; forward only
};

/// O = softmax(s Q Kᵀ) V, queued in the stream. The tensors must live until it has run.
/// A row that sees no key has O = 0 and lse = −inf. NaN and infinities are results.
/// @throws unsupported_call naming the argument, what it is and what was expected; std::runtime_error with CUDA's words where a launch fails
void forward(forward_call const& call, cudaStream_t stream = nullptr, kernel_choice choice = kernel_choice::automatic);

/// dQ, dK, dV, queued likewise, from the O and lse that a forward pass stored (with any fixes: they are in O and lse).
/// @throws as forward
void backward(backward_call const& call, cudaStream_t stream = nullptr, kernel_choice choice = kernel_choice::automatic);

/// Bytes of device memory that backward() needs beside its tensors. Depends on nothing but the arguments.
/// @throws unsupported_call
[[nodiscard]] std::size_t backward_workspace_bytes(attention_shape const& shape, bool deterministic);

}  // namespace stickybit::kernel
