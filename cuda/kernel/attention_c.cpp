// attention.h by attention.hpp.
#include "attention.h"

#include <exception>
#include <string>

#include "attention.hpp"

namespace {

using namespace stickybit::kernel;

std::string& error_text() {
  thread_local std::string text;
  return text;
}

/// No exception leaves a C function.
template <class Call>
stickybit_status guarded(Call const& call) noexcept {
  try {
    call();
    return STICKYBIT_OK;
  } catch (unsupported_call const& error) {
    error_text() = error.what();
    return STICKYBIT_UNSUPPORTED;
  } catch (std::exception const& error) {
    error_text() = error.what();
    return STICKYBIT_FAILED;
  }
}

template <class Pointer>
void check_given(Pointer const* given, char const* name) {
  if (given == nullptr) throw unsupported_call(std::string("attention: ") + name + " is null: expected a structure");
}

input_tensor from_c(stickybit_input const& t) { return {static_cast<std::uint16_t const*>(t.data), t.batch_stride, t.row_stride, t.head_stride}; }
output_tensor from_c(stickybit_output const& t) { return {static_cast<std::uint16_t*>(t.data), t.batch_stride, t.row_stride, t.head_stride}; }

attention_shape from_c(stickybit_attention_shape const& s) {
  return {.batch = s.batch, .queries = s.queries, .keys = s.keys, .heads = s.heads, .key_heads = s.key_heads, .head_dim = s.head_dim,
          .softmax_scale = s.softmax_scale, .causal = s.causal != 0};
}

forward_fixes from_c(stickybit_forward_fixes const& f) {
  return {.subtract_first = f.subtract_first != 0, .two_row_sums = f.two_row_sums != 0, .beta = f.beta != 0,
          .tie = {.beta = f.tie_beta, .tolerance = f.tie_tolerance, .published = f.tie_published != 0}};
}

kernel_choice from_c(stickybit_kernel kernel) {
  switch (kernel) {
    case STICKYBIT_KERNEL_AUTOMATIC: return kernel_choice::automatic;
    case STICKYBIT_KERNEL_SM80: return kernel_choice::sm80;
    case STICKYBIT_KERNEL_SM90: return kernel_choice::sm90;
  }
  throw unsupported_call("attention: kernel is " + std::to_string(int(kernel)) + ": expected 0, 80 or 90");
}

}  // namespace

extern "C" {

stickybit_status stickybit_attention_forward(stickybit_forward_call const* call, void* stream) {
  return guarded([&] {
    check_given(call, "call");
    forward({.shape = from_c(call->shape), .fixes = from_c(call->fixes), .q = from_c(call->q), .k = from_c(call->k), .v = from_c(call->v), .o = from_c(call->o),
             .o_low = from_c(call->o_low), .lse = call->lse},
            static_cast<cudaStream_t>(stream), from_c(call->kernel));
  });
}

stickybit_status stickybit_attention_backward(stickybit_backward_call const* call, void* stream) {
  return guarded([&] {
    check_given(call, "call");
    backward({.shape = from_c(call->shape), .deterministic = call->deterministic != 0, .q = from_c(call->q), .k = from_c(call->k), .v = from_c(call->v),
              .o = from_c(call->o), .d_o = from_c(call->d_o), .o_low = from_c(call->o_low), .lse = call->lse, .dq = from_c(call->dq), .dk = from_c(call->dk),
              .dv = from_c(call->dv), .workspace = call->workspace},
             static_cast<cudaStream_t>(stream), from_c(call->kernel));
  });
}

stickybit_status stickybit_attention_backward_workspace(stickybit_attention_shape const* shape, int deterministic, size_t* bytes) {
  return guarded([&] {
    check_given(shape, "shape");
    check_given(bytes, "bytes");
    *bytes = backward_workspace_bytes(from_c(*shape), deterministic != 0);
  });
}

char const* stickybit_error(void) { return error_text().c_str(); }

}  // extern "C"
