#include "attention_device.hpp"

#include <algorithm>
#include <cstring>

#include "../support/device.cuh"

namespace stickybit::gpu {
namespace {

/// A tensor of a call in device memory: elements where the strides say, a filler between them and around.
class placed_tensor {
 public:
  placed_tensor(attention_case const& c, bool of_keys, std::uint16_t filler)
      : batch_(c.batch), rows_(of_keys ? c.keys : c.queries), heads_(of_keys ? c.key_heads : c.heads), d_(c.head_dim), filler_(filler) {
    place(c);
    const std::int64_t last = (batch_ - 1) * strides_.batch_stride + (rows_ - 1) * strides_.row_stride + (heads_ - 1) * strides_.head_stride + d_;
    image_.assign(std::size_t(guard_ + last + 64), filler_);
    memory_ = std::make_unique<device_array<std::uint16_t>>(image_.size());
  }

  void upload(std::vector<bf16_code> const& dense) {
    std::size_t i = 0;
    each_row([&](std::size_t at) { std::memcpy(&image_[at], &dense[std::exchange(i, i + std::size_t(d_))], std::size_t(d_) * 2); });
    memory_->upload(image_);
  }
  void poison(std::uint16_t filler) {
    std::ranges::fill(image_, filler_ = filler);
    memory_->upload(image_);
  }
  [[nodiscard]] std::vector<bf16_code> download(char const* name, std::string& damage) {
    memory_->download(image_);
    std::vector<bf16_code> dense(std::size_t(batch_ * rows_ * heads_ * d_));
    std::size_t i = 0;
    each_row([&](std::size_t at) {
      std::memcpy(static_cast<void*>(&dense[std::exchange(i, i + std::size_t(d_))]), &image_[at], std::size_t(d_) * 2);
      std::fill_n(image_.begin() + std::ptrdiff_t(at), d_, filler_);
    });
    if (const auto found = std::ranges::find_if(image_, [&](std::uint16_t code) { return code != filler_; }); found != image_.end() && damage.empty())
      damage = std::string(name) + ": written at element " + std::to_string(found - image_.begin() - guard_) + " from its begin, where none of its elements is";
    return dense;
  }
  [[nodiscard]] kernel::input_tensor input() const { return {memory_->data() + guard_, strides_.batch_stride, strides_.row_stride, strides_.head_stride}; }
  [[nodiscard]] kernel::output_tensor output() const { return {memory_->data() + guard_, strides_.batch_stride, strides_.row_stride, strides_.head_stride}; }

 private:
  void place(attention_case const& c) {
    auto& [data, batch, row, head] = strides_;
    switch (c.layout) {
      case memory_layout::rows_outside: head = d_, row = heads_ * d_, batch = rows_ * row; break;
      case memory_layout::heads_outside: row = d_, head = rows_ * d_, batch = heads_ * head; break;
      case memory_layout::packed: head = d_, row = 3 * heads_ * d_, batch = rows_ * row; break;
      case memory_layout::gaps: {
        const auto gap = [&](int bits) { return 8 * std::int64_t((c.index >> bits & 3) + 1); };
        head = d_ + gap(0), row = heads_ * head + gap(2), batch = rows_ * row + gap(4), guard_ = 72;  // aligned to 16 bytes and no more
        break;
      }
    }
  }
  template <class Body>
  void each_row(Body const& body) const {
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t row = 0; row < rows_; ++row)
        for (std::int64_t head = 0; head < heads_; ++head) body(std::size_t(guard_ + b * strides_.batch_stride + row * strides_.row_stride + head * strides_.head_stride));
  }

  std::int64_t batch_, rows_, heads_, d_, guard_ = 64;
  kernel::output_tensor strides_;
  std::uint16_t filler_;
  std::vector<std::uint16_t> image_;
  std::unique_ptr<device_array<std::uint16_t>> memory_;
};

/// lse [b, h, s], with room around it that must stay.
class placed_lse {
 public:
  explicit placed_lse(std::size_t size) : image_(size + 2 * guard), memory_(image_.size()) {}

  void upload(std::vector<f32_code> const& lse) {
    std::memcpy(&image_[guard], lse.data(), lse.size() * 4);
    memory_.upload(image_);
  }
  void poison(std::uint32_t filler) {
    std::ranges::fill(image_, filler_ = filler);
    memory_.upload(image_);
  }
  [[nodiscard]] std::vector<f32_code> download(std::string& damage) {
    memory_.download(image_);
    std::vector<f32_code> lse(image_.size() - 2 * guard);
    std::memcpy(static_cast<void*>(lse.data()), &image_[guard], lse.size() * 4);
    for (std::size_t i = 0; i < guard; ++i)
      if ((image_[i] != filler_ || image_[image_.size() - 1 - i] != filler_) && damage.empty()) damage = "lse: written outside of it";
    return lse;
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(memory_.data()) + guard; }

 private:
  static constexpr std::size_t guard = 4;
  std::uint32_t filler_ = 0;
  std::vector<std::uint32_t> image_;
  device_array<std::uint32_t> memory_;
};

constexpr std::uint16_t nan_between = 0x7fff;

kernel::attention_shape shape_of(attention_case const& c) {
  return {.batch = c.batch, .queries = c.queries, .keys = c.keys, .heads = c.heads, .key_heads = c.key_heads, .head_dim = c.head_dim, .softmax_scale = c.scale, .causal = c.causal};
}

/// Runs `once` as often as asked, with other codes in the outputs each time.
/// @param any_order  dQ may differ
template <class Once>
call_results repeated(std::uint64_t repeats, bool any_order, Once const& once) {
  const call_results first = once(0);
  for (std::uint64_t i = 1; i < repeats; ++i) {
    call_results again = once(i);
    if (any_order) again.dq = first.dq;
    if (again != first) throw std::runtime_error("run " + std::to_string(i) + " of the same call gives other bits than run 0");
  }
  return first;
}

/// Codes that no output keeps by chance in two runs.
std::uint16_t poison_of(std::uint64_t run) { return std::uint16_t(0xbeef + 0x11 * (run & 63)); }

call_results run_forward(attention_case const& c, attention_problem const& problem, device_options const& options) {
  placed_tensor q(c, false, nan_between), k(c, true, nan_between), v(c, true, nan_between), o(c, false, 0), o_low(c, false, 0);
  placed_lse lse(std::size_t(c.batch * c.heads * c.queries));
  q.upload(problem.q), k.upload(problem.k), v.upload(problem.v);
  return repeated(options.repeats, false, [&](std::uint64_t run) {
    o.poison(poison_of(run)), o_low.poison(poison_of(run)), lse.poison(poison_of(run) * 0x10001U);
    if (options.pretended != nullptr) {
      o.upload(options.pretended->o), lse.upload(options.pretended->lse);
      if (options.low_output) o_low.upload(options.pretended->o_low);
    } else {
      kernel::forward({.shape = shape_of(c), .fixes = options.fixes, .q = q.input(), .k = k.input(), .v = v.input(), .o = o.output(),
                       .o_low = options.low_output ? o_low.output() : kernel::output_tensor{}, .lse = lse.data()},
                      nullptr, options.choice);
    }
    finish("forward kernel");
    call_results results;
    results.o = o.download("o", results.damage), results.lse = lse.download(results.damage);
    if (options.low_output) results.o_low = o_low.download("o_low", results.damage);
    return results;
  });
}

call_results run_backward(attention_case const& c, attention_problem const& problem, forward_result const& stored, device_options const& options) {
  placed_tensor q(c, false, nan_between), k(c, true, nan_between), v(c, true, nan_between), o(c, false, nan_between), o_low(c, false, nan_between), d_o(c, false, nan_between);
  placed_tensor dq(c, false, 0), dk(c, true, 0), dv(c, true, 0);
  placed_lse lse(stored.lse.size());
  q.upload(problem.q), k.upload(problem.k), v.upload(problem.v), o.upload(stored.o), d_o.upload(problem.d_o), lse.upload(stored.lse);
  if (options.stored_low != nullptr) o_low.upload(*options.stored_low);
  const std::size_t bytes = kernel::backward_workspace_bytes(shape_of(c), c.deterministic);
  device_array<std::byte> workspace(bytes + 256);
  return repeated(options.repeats, !c.deterministic, [&](std::uint64_t run) {
    dq.poison(poison_of(run)), dk.poison(poison_of(run)), dv.poison(poison_of(run));
    check(cudaMemset(workspace.data(), run % 2 == 0 ? 0xff : 0x5a, bytes + 256), "workspace");
    if (options.pretended != nullptr) {
      dq.upload(options.pretended->dq), dk.upload(options.pretended->dk), dv.upload(options.pretended->dv);
    } else {
      kernel::backward({.shape = shape_of(c), .deterministic = c.deterministic, .q = q.input(), .k = k.input(), .v = v.input(), .o = o.input(), .d_o = d_o.input(),
                        .o_low = options.stored_low != nullptr ? o_low.input() : kernel::input_tensor{}, .lse = lse.data(), .dq = dq.output(), .dk = dk.output(), .dv = dv.output(),
                        .workspace = workspace.data()},
                       nullptr, options.choice);
    }
    finish("backward kernels");
    call_results results;
    results.dk = dk.download("dk", results.damage), results.dv = dv.download("dv", results.damage), results.dq = dq.download("dq", results.damage);
    std::byte beyond[256];
    check(cudaMemcpy(beyond, workspace.data() + bytes, 256, cudaMemcpyDeviceToHost), "workspace");
    for (std::byte b : beyond)
      if (b != std::byte(run % 2 == 0 ? 0xff : 0x5a) && results.damage.empty()) results.damage = "workspace: written beyond its end";
    return results;
  });
}

}  // namespace

call_results run_on_device(attention_case const& c, attention_problem const& problem, forward_result const* stored, device_options const& options) {
  return c.backward ? run_backward(c, problem, *stored, options) : run_forward(c, problem, options);
}

}  // namespace stickybit::gpu
