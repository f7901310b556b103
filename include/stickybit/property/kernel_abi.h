#ifndef STICKYBIT_KERNEL_ABI_H
#define STICKYBIT_KERNEL_ABI_H
/* An attention kernel as a shared library, for `stickybit check lib:PATH`: plain C, host pointers. The library defines
 *   stickybit_kernel const* stickybit_kernel_under_test(void);
 * It is loaded into a process of its own. Inputs are read-only; reading or writing past the end of a tensor is a memory fault. */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STICKYBIT_KERNEL_VERSION 1u
/* What forward and backward return for a call that the kernel does not take: it is left out, and counted. */
#define STICKYBIT_KERNEL_UNSUPPORTED 1000

/* O = softmax(softmax_scale Q K^T + mask) V. BF16 codes; the last dimension is contiguous, and so is every tensor.
 * q, d_o [batch, queries, heads, head_dim]; k, v [batch, keys, key_heads, head_dim]; query head h uses key head h / (heads / key_heads). */
typedef struct stickybit_kernel_call {
  int64_t batch, heads, key_heads, queries, keys, head_dim;
  int32_t causal; /* 0 or 1 */
  double softmax_scale;
  uint16_t const *q, *k, *v, *d_o; /* d_o: backward only, else null */
} stickybit_kernel_call;

typedef struct stickybit_kernel {
  uint32_t version; /* STICKYBIT_KERNEL_VERSION */
  uint32_t has_lse; /* 0: forward writes no lse, and is given null */
  void* context;
  /* Writes o like q, and lse [batch, heads, queries], FP32 codes, natural logarithm. Returns 0; anything else is a failure. */
  int (*forward)(void* context, stickybit_kernel_call const* call, uint16_t* o, uint32_t* lse);
  /* Null where there is none. o and lse are what forward wrote; writes dq like q, dk and dv like k. */
  int (*backward)(void* context, stickybit_kernel_call const* call, uint16_t const* o, uint32_t const* lse, uint16_t* dq, uint16_t* dk, uint16_t* dv);
} stickybit_kernel;

stickybit_kernel const* stickybit_kernel_under_test(void);

#ifdef __cplusplus
}
#endif
#endif
