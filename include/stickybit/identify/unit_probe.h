#ifndef STICKYBIT_IDENTIFY_UNIT_PROBE_H
#define STICKYBIT_IDENTIFY_UNIT_PROBE_H
#include <stddef.h>
#include <stdint.h>

/* What a shared library exports to be probed by `stickybit identify unit --library`: one function,
   stickybit_unit_under_test(). It is called, and its unit evaluated, in a child process, by one thread. */

#ifdef __cplusplus
extern "C" {
#endif

#define STICKYBIT_UNIT_VERSION 1

/* A black box that computes d = c + sum over k of a[k] b[k]. Every code lies in the low bits of a uint64_t. */
typedef struct stickybit_unit {
  uint32_t version;   /* STICKYBIT_UNIT_VERSION */
  uint32_t k;         /* products of one instruction, 1 to 255 */
  const char* a;      /* formats: bf16 f16 tf32 f32 e4m3fn e5m2 e4m3fnuz e5m2fnuz e3m2 e2m3 e2m1 */
  const char* b;
  const char* c;      /* f32 or f16 */
  const char* d;      /* f32 or f16 */
  void* context;      /* given to evaluate */
  /* `count` inner products: a and b are [count][k], c and d are [count]. Returns 0, or anything else for a failure. */
  int (*evaluate)(void* context, size_t count, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* d);
} stickybit_unit;

/* Null for a failure. The unit lives to the end of the process. */
const stickybit_unit* stickybit_unit_under_test(void);

#ifdef __cplusplus
}
#endif
#endif
