// What our attention kernels are called with: a wrong call throws, naming the argument, what it is and what was expected. No GPU needed.
#include "kernel/call_check.hpp"

#include "support/catch.hpp"

using namespace stickybit::kernel;
using Catch::Matchers::Contains;

namespace {

/// Memory that nothing reads: tensors one after another, 2^24 bytes apart.
template <class Code>
tensor<Code> dense(int place, std::int64_t rows, std::int64_t heads, std::int64_t d) {
  return {reinterpret_cast<Code*>(std::uintptr_t{1} << 40 | std::uintptr_t(place) << 24), rows * heads * d, heads * d, d};
}

attention_shape shape() { return {.batch = 2, .queries = 100, .keys = 70, .heads = 4, .key_heads = 2, .head_dim = 64, .softmax_scale = 0.125, .causal = true}; }

forward_call valid_forward() {
  return {.shape = shape(), .fixes = {}, .q = dense<std::uint16_t const>(1, 100, 4, 64), .k = dense<std::uint16_t const>(2, 70, 2, 64), .v = dense<std::uint16_t const>(3, 70, 2, 64),
          .o = dense<std::uint16_t>(4, 100, 4, 64), .o_low = {}, .lse = reinterpret_cast<float*>(std::uintptr_t{1} << 41)};
}

backward_call valid_backward() {
  const auto in = [](int place) { return dense<std::uint16_t const>(place, 100, 4, 64); };
  return {.shape = shape(), .deterministic = true, .q = in(1), .k = dense<std::uint16_t const>(2, 70, 2, 64), .v = dense<std::uint16_t const>(3, 70, 2, 64), .o = in(4), .d_o = in(5), .o_low = {},
          .lse = reinterpret_cast<float*>(std::uintptr_t{1} << 41), .dq = dense<std::uint16_t>(6, 100, 4, 64), .dk = dense<std::uint16_t>(7, 70, 2, 64), .dv = dense<std::uint16_t>(8, 70, 2, 64),
          .workspace = reinterpret_cast<void*>(std::uintptr_t{1} << 42)};
}

template <class Change>
void refuses(Change change, char const* name, char const* expected, int capability = 90, kernel_choice choice = kernel_choice::automatic) {
  forward_call call = valid_forward();
  change(call);
  CHECK_THROWS_AS(checked_forward(call, capability, choice), unsupported_call);
  CHECK_THROWS_WITH(checked_forward(call, capability, choice), Contains(name) && Contains(expected));
}

}  // namespace

TEST_CASE("attention call: the kernel that runs, by compute capability and choice", "[kernel]") {
  CHECK(checked_forward(valid_forward(), 90, kernel_choice::automatic) == kernel_choice::sm90);
  CHECK(checked_forward(valid_forward(), 90, kernel_choice::sm80) == kernel_choice::sm80);
  for (int capability : {80, 86, 89}) CHECK(checked_forward(valid_forward(), capability, kernel_choice::automatic) == kernel_choice::sm80);
  for (int capability : {80, 90}) CHECK(checked_backward(valid_backward(), 4096, capability, kernel_choice::automatic) == kernel_choice::sm80);
  refuses([](forward_call&) {}, "compute capability is 8.0", "9.0", 80, kernel_choice::sm90);
  refuses([](forward_call&) {}, "compute capability is 7.5", "8.x", 75);
  CHECK_THROWS_WITH(checked_backward(valid_backward(), 4096, 90, kernel_choice::sm90), Contains("sm90") && Contains("backward"));
}

TEST_CASE("attention call: shapes", "[kernel]") {
  refuses([](forward_call& c) { c.shape.head_dim = 96; }, "head_dim is 96", "64 or 128");
  refuses([](forward_call& c) { c.shape.queries = 0; }, "queries is 0", "from 1");
  refuses([](forward_call& c) { c.shape.keys = -1; }, "keys is -1", "from 1");
  refuses([](forward_call& c) { c.shape.heads = 3; }, "heads is 3", "multiple of key_heads, 2");
  refuses([](forward_call& c) { c.shape.batch = 60000; }, "batch", "65535");
  for (double scale : {0.0, -1.0, 1e-40, 1e39}) refuses([=](forward_call& c) { c.shape.softmax_scale = scale; }, "softmax_scale", "above 0");
}

TEST_CASE("attention call: tensors", "[kernel]") {
  refuses([](forward_call& c) { c.k.data = nullptr; }, "k is null", "device memory");
  refuses([](forward_call& c) { c.v.data += 4; }, "v is at an address 8 bytes above", "16 bytes");
  refuses([](forward_call& c) { c.q.row_stride = 257; }, "q.row_stride is 257", "multiple of 8");
  refuses([](forward_call& c) { c.o.head_stride = 32; }, "o is a tensor whose strides give two elements one place", "apart");
  refuses([](forward_call& c) { c.o.data = const_cast<std::uint16_t*>(c.q.data); }, "o is in memory that q uses", "apart");
  refuses([](forward_call& c) { c.fixes = {.beta = true, .tie = {.beta = 0.5F}}; }, "fixes.tie.beta is 0.5", "from 1 to 64");
  refuses([](forward_call& c) { c.fixes = {.beta = true, .tie = {.tolerance = 2}}; }, "fixes.tie.tolerance is 2", "from 0 to 1");
  forward_call packed = valid_forward();  // q, k, v and o as neighbours in every row
  packed.shape.key_heads = 4, packed.shape.keys = 100;
  const auto at = [&](int i) { return packed.q.data + i * 256; };
  packed.k.data = at(1), packed.v.data = at(2), packed.o.data = const_cast<std::uint16_t*>(at(3));
  for (input_tensor* t : {&packed.q, &packed.k, &packed.v}) t->batch_stride = 100 * 1024, t->row_stride = 1024, t->head_stride = 64;
  packed.o.batch_stride = 100 * 1024, packed.o.row_stride = 1024, packed.o.head_stride = 64;
  CHECK_NOTHROW(checked_forward(packed, 90, kernel_choice::automatic));
}

TEST_CASE("attention call: what a backward pass needs beside", "[kernel]") {
  const auto refused = [](auto change, char const* name) {
    backward_call call = valid_backward();
    change(call);
    CHECK_THROWS_WITH(checked_backward(call, 4096, 90, kernel_choice::automatic), Contains(name));
  };
  refused([](backward_call& c) { c.lse = nullptr; }, "lse is null");
  refused([](backward_call& c) { c.workspace = nullptr; }, "workspace is null");
  refused([](backward_call& c) { c.workspace = static_cast<char*>(c.workspace) + 16; }, "256");
  refused([](backward_call& c) { c.dk.data = c.dv.data; }, "dk is in memory that dv uses");
  refused([](backward_call& c) { c.d_o.data = nullptr; }, "d_o is null");
}

TEST_CASE("attention call: strides of dimensions of extent 1 are filled in", "[kernel]") {
  forward_call call = valid_forward();
  call.shape.batch = 1;
  call.q.batch_stride = 3;
  CHECK_NOTHROW(checked_forward(call, 90, kernel_choice::automatic));
  CHECK(with_every_stride(call).q.batch_stride == 100 * 4 * 64);
  CHECK(with_every_stride(call).k.row_stride == call.k.row_stride);
}
