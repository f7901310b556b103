#include "call_check.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace stickybit::kernel {
namespace {

/// The largest number of rows, heads or batch elements, and of heads in all: kernels count them, and tiles of them, in 32 bits.
constexpr std::int64_t most_rows = std::int64_t{1} << 22, most_heads = 65535;
constexpr std::int64_t most_elements = std::int64_t{1} << 40;  // of a stride: TMA's are below 2^40 bytes

[[noreturn]] void refuse(std::string const& what, std::string const& is, std::string const& expected) {
  throw unsupported_call("attention: " + what + " is " + is + ": expected " + expected);
}

void check_range(char const* what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) refuse(what, std::to_string(value), "a number from " + std::to_string(least) + " to " + std::to_string(most));
}

std::string number_text(double x) {
  std::string text(32, '\0');
  text.resize(std::size_t(std::snprintf(text.data(), text.size(), "%.9g", x)));
  return text;
}

/// One dimension of a tensor in memory.
struct dimension {
  std::int64_t extent, stride;  // in bytes
  friend bool operator==(dimension const&, dimension const&) = default;
};

/// Where a tensor's elements are: dimensions of extent above 1, the largest stride first; innermost `bytes` contiguous ones.
struct footprint {
  std::string name;
  std::uintptr_t begin = 0;
  std::vector<dimension> dimensions;
  std::int64_t bytes = 0;
  bool written = false;

  /// From the first byte to after the last, from dimension `from` inwards.
  [[nodiscard]] std::int64_t span(std::size_t from) const {
    std::int64_t total = bytes;
    for (std::size_t i = from; i < dimensions.size(); ++i) total += (dimensions[i].extent - 1) * dimensions[i].stride;
    return total;
  }
};

/// Do two elements of one tensor share memory?
bool overlaps_itself(footprint const& f) {
  for (std::size_t i = 0; i < f.dimensions.size(); ++i)
    if (f.dimensions[i].stride < f.span(i + 1)) return true;
  return false;
}

/// May two tensors share memory? Those that are interleaved with the same outer strides, as dQ, dK and dV of one packed buffer, do not.
bool may_overlap(footprint const& a, footprint const& b) {
  if (a.begin + std::uintptr_t(a.span(0)) <= b.begin || b.begin + std::uintptr_t(b.span(0)) <= a.begin) return false;
  std::int64_t apart = std::int64_t(b.begin) - std::int64_t(a.begin);
  for (std::size_t i = 0; i < a.dimensions.size() && i < b.dimensions.size() && a.dimensions[i].stride == b.dimensions[i].stride; ++i) {
    const std::int64_t stride = a.dimensions[i].stride;
    apart = (apart % stride + stride) % stride;
    if (apart >= a.span(i + 1) && apart + b.span(i + 1) <= stride) return false;
  }
  return true;
}

class tensors_of_call {
 public:
  explicit tensors_of_call(attention_shape const& shape) : shape_(shape) {}

  template <class Code>
  void add(char const* name, tensor<Code> const& t, bool of_keys) {
    const std::int64_t rows = of_keys ? shape_.keys : shape_.queries, heads = of_keys ? shape_.key_heads : shape_.heads;
    check_pointer(name, t.data, 16);
    footprint f{name, reinterpret_cast<std::uintptr_t>(t.data), {}, shape_.head_dim * 2, !std::is_const_v<Code>};
    take_stride(f, "batch_stride", shape_.batch, t.batch_stride);
    take_stride(f, "row_stride", rows, t.row_stride);
    take_stride(f, "head_stride", heads, t.head_stride);
    std::ranges::sort(f.dimensions, std::greater{}, &dimension::stride);
    if (overlaps_itself(f)) refuse(std::string(name), "a tensor whose strides give two elements one place", "strides that keep them apart");
    footprints_.push_back(std::move(f));
  }

  void add_lse(float const* lse, bool written) {
    check_pointer("lse", lse, 4);
    footprints_.push_back({"lse", reinterpret_cast<std::uintptr_t>(lse), {}, shape_.batch * shape_.heads * shape_.queries * 4, written});
  }

  void add_workspace(void* workspace, std::int64_t bytes) {
    check_pointer("workspace", workspace, 256);
    footprints_.push_back({"workspace", reinterpret_cast<std::uintptr_t>(workspace), {}, bytes, true});
  }

  /// What is written shares memory with nothing else.
  void check_overlaps() const {
    for (footprint const& a : footprints_)
      for (footprint const& b : footprints_)
        if (a.written && &a != &b && may_overlap(a, b)) refuse(a.name, "in memory that " + b.name + " uses", "an output apart from every other tensor");
  }

 private:
  static void check_pointer(char const* name, void const* data, std::uintptr_t alignment) {
    if (data == nullptr) refuse(name, "null", "device memory");
    if (const auto at = reinterpret_cast<std::uintptr_t>(data) % alignment; at != 0)
      refuse(name, "at an address " + std::to_string(at) + " bytes above a multiple of " + std::to_string(alignment), "data aligned to " + std::to_string(alignment) + " bytes");
  }
  static void take_stride(footprint& f, char const* name, std::int64_t extent, std::int64_t stride) {
    if (extent == 1) return;
    if (stride < 8 || stride % 8 != 0 || stride >= most_elements)
      refuse(f.name + "." + name, std::to_string(stride), "a multiple of 8 elements from 8 to below 2^40");
    f.dimensions.push_back({extent, stride * 2});
  }

  attention_shape const& shape_;
  std::vector<footprint> footprints_;
};

std::string capability_text(int capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

kernel_choice kernel_for(int capability, kernel_choice choice) {
  const bool has_sm80 = capability / 10 == 8 || capability / 10 == 9, has_sm90 = capability == 90;
  if (choice == kernel_choice::automatic) choice = has_sm90 ? kernel_choice::sm90 : kernel_choice::sm80;
  if (choice == kernel_choice::sm90 && !has_sm90) refuse("the GPU's compute capability", capability_text(capability), "9.0, which the sm90 kernel needs");
  if (choice == kernel_choice::sm80 && !has_sm80) refuse("the GPU's compute capability", capability_text(capability), "8.x or 9.x, which the sm80 kernels need");
  return choice;
}

void check_fixes(forward_fixes const& fixes) {
  if (!fixes.beta) return;
  const auto [beta, tolerance, published] = fixes.tie;
  if (!(beta >= 1 && beta <= 64)) refuse("fixes.tie.beta", number_text(beta), "a number from 1 to 64");
  if (!(tolerance >= 0 && tolerance <= 1)) refuse("fixes.tie.tolerance", number_text(tolerance), "a number from 0 to 1");
}

template <class Code>
void fill_strides(tensor<Code>& t, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
  if (heads == 1) t.head_stride = head_dim;
  if (rows == 1) t.row_stride = heads == 1 ? head_dim : heads * t.head_stride;
  if (batch == 1) t.batch_stride = std::max(rows * t.row_stride, heads * t.head_stride);
}

}  // namespace

void check_shape(attention_shape const& shape) {
  check_range("batch", shape.batch, 1, most_heads);
  check_range("queries", shape.queries, 1, most_rows);
  check_range("keys", shape.keys, 1, most_rows);
  check_range("heads", shape.heads, 1, most_heads);
  check_range("key_heads", shape.key_heads, 1, most_heads);
  if (shape.batch * shape.heads > most_heads) refuse("batch · heads", std::to_string(shape.batch * shape.heads), "at most " + std::to_string(most_heads));
  if (shape.heads % shape.key_heads != 0) refuse("heads", std::to_string(shape.heads), "a multiple of key_heads, " + std::to_string(shape.key_heads));
  if (shape.head_dim != 64 && shape.head_dim != 128) refuse("head_dim", std::to_string(shape.head_dim), "64 or 128");
  constexpr double log2_e = 1.4426950408889634;
  const auto narrow = static_cast<float>(shape.softmax_scale);
  if (!(narrow >= FLT_MIN && double{narrow} * log2_e <= FLT_MAX)) refuse("softmax_scale", number_text(shape.softmax_scale), "a normal FP32 number above 0 whose product with log2(e) is finite");
}

kernel_choice checked_forward(forward_call const& call, int compute_capability, kernel_choice choice) {
  check_shape(call.shape);
  check_fixes(call.fixes);
  tensors_of_call tensors(call.shape);
  tensors.add("q", call.q, false);
  tensors.add("k", call.k, true);
  tensors.add("v", call.v, true);
  tensors.add("o", call.o, false);
  if (call.o_low.data != nullptr) tensors.add("o_low", call.o_low, false);
  if (call.lse != nullptr) tensors.add_lse(call.lse, true);
  tensors.check_overlaps();
  return kernel_for(compute_capability, choice);
}

kernel_choice checked_backward(backward_call const& call, std::size_t workspace_bytes, int compute_capability, kernel_choice choice) {
  check_shape(call.shape);
  tensors_of_call tensors(call.shape);
  tensors.add("q", call.q, false);
  tensors.add("k", call.k, true);
  tensors.add("v", call.v, true);
  tensors.add("o", call.o, false);
  tensors.add("d_o", call.d_o, false);
  if (call.o_low.data != nullptr) tensors.add("o_low", call.o_low, false);
  tensors.add_lse(call.lse, false);
  tensors.add("dq", call.dq, false);
  tensors.add("dk", call.dk, true);
  tensors.add("dv", call.dv, true);
  if (workspace_bytes != 0) tensors.add_workspace(call.workspace, std::int64_t(workspace_bytes));
  tensors.check_overlaps();
  if (choice == kernel_choice::sm90) refuse("the kernel asked for", "sm90", "sm80 or automatic: the backward pass has no other");
  return kernel_for(compute_capability, kernel_choice::sm80);
}

forward_call with_every_stride(forward_call call) {
  attention_shape const& s = call.shape;
  fill_strides(call.q, s.batch, s.queries, s.heads, s.head_dim);
  fill_strides(call.k, s.batch, s.keys, s.key_heads, s.head_dim);
  fill_strides(call.v, s.batch, s.keys, s.key_heads, s.head_dim);
  fill_strides(call.o, s.batch, s.queries, s.heads, s.head_dim);
  fill_strides(call.o_low, s.batch, s.queries, s.heads, s.head_dim);
  return call;
}

backward_call with_every_stride(backward_call call) {
  attention_shape const& s = call.shape;
  for (input_tensor* t : {&call.q, &call.o, &call.d_o, &call.o_low}) fill_strides(*t, s.batch, s.queries, s.heads, s.head_dim);
  for (input_tensor* t : {&call.k, &call.v}) fill_strides(*t, s.batch, s.keys, s.key_heads, s.head_dim);
  fill_strides(call.dq, s.batch, s.queries, s.heads, s.head_dim);
  for (output_tensor* t : {&call.dk, &call.dv}) fill_strides(*t, s.batch, s.keys, s.key_heads, s.head_dim);
  return call;
}

}  // namespace stickybit::kernel
