#ifndef STICKYBIT_KERNEL_ATTENTION_H
#define STICKYBIT_KERNEL_ATTENTION_H
/* The calls of attention.hpp for C: the same fields, the same rules, the same bits. A call gives a status; stickybit_error() says what was wrong.
   Structures begin as all zeros: stickybit_forward_call call = {0}; what is not set then has the value that attention.hpp gives, except where a
   comment says that it must be set. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stickybit_status {
  STICKYBIT_OK = 0,
  STICKYBIT_UNSUPPORTED = 1, /* an argument that no kernel takes; stickybit_error() names it */
  STICKYBIT_FAILED = 2       /* CUDA's own error, or no memory */
} stickybit_status;

typedef enum stickybit_kernel {
  STICKYBIT_KERNEL_AUTOMATIC = 0,
  STICKYBIT_KERNEL_SM80 = 80,
  STICKYBIT_KERNEL_SM90 = 90
} stickybit_kernel;

/* BF16 in device memory, [batch, rows, heads, head_dim]; the last dimension is contiguous. Strides in elements, multiples of 8; aligned to 16 bytes. */
typedef struct stickybit_input {
  void const* data;
  int64_t batch_stride, row_stride, head_stride;
} stickybit_input;

typedef struct stickybit_output {
  void* data;
  int64_t batch_stride, row_stride, head_stride;
} stickybit_output;

typedef struct stickybit_attention_shape {
  int64_t batch, queries, keys, heads, key_heads, head_dim; /* must be set */
  double softmax_scale;                                     /* must be set, above 0 */
  int causal;                                               /* key c is visible to row r iff c <= r + keys - queries */
} stickybit_attention_shape;

typedef struct stickybit_forward_fixes {
  int subtract_first, two_row_sums;
  int beta;                        /* if not 0, the three below must be set */
  float tie_beta, tie_tolerance;   /* 1 to 64; 0 to 1, natural units */
  int tie_published;
} stickybit_forward_fixes;

typedef struct stickybit_forward_call {
  stickybit_attention_shape shape;
  stickybit_forward_fixes fixes;
  stickybit_input q, k, v;
  stickybit_output o;
  stickybit_output o_low; /* data may be null */
  float* lse;             /* [batch, heads, queries]; may be null */
  stickybit_kernel kernel;
} stickybit_forward_call;

typedef struct stickybit_backward_call {
  stickybit_attention_shape shape;
  int deterministic; /* 0: parts of dQ are added in any order */
  stickybit_input q, k, v, o, d_o;
  stickybit_input o_low; /* data may be null */
  float const* lse;
  stickybit_output dq, dk, dv;
  void* workspace; /* stickybit_attention_backward_workspace() bytes, aligned to 256 */
  stickybit_kernel kernel;
} stickybit_backward_call;

/* `stream` is a cudaStream_t; null: the default stream. */
stickybit_status stickybit_attention_forward(stickybit_forward_call const* call, void* stream);
stickybit_status stickybit_attention_backward(stickybit_backward_call const* call, void* stream);
stickybit_status stickybit_attention_backward_workspace(stickybit_attention_shape const* shape, int deterministic, size_t* bytes);

/* What was wrong in this thread's last call that did not give STICKYBIT_OK; "" before there was one. Valid until the next. */
char const* stickybit_error(void);

#ifdef __cplusplus
}
#endif
#endif
