#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "child.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/property/kernel.hpp"
#include "stickybit/property/kernel_abi.h"

namespace stickybit {
namespace {

/// A tensor that ends, but for its alignment to 16 bytes, at a page that cannot be touched; before it and in the gap lies a known pattern.
class guarded_tensor {
 public:
  explicit guarded_tensor(std::size_t bytes) : bytes_(bytes) {
    const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
    room_ = (bytes + 64 + page - 1) / page * page;
    void* at = ::mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw kernel_failure(failure_kind::error, "no memory for a tensor");
    base_ = static_cast<std::byte*>(at);
    whole_ = room_ + page;
    ::mprotect(base_ + room_, page, PROT_NONE);
    data_ = base_ + room_ - (bytes + 15) / 16 * 16;
    std::memset(base_, pattern, room_);
  }
  ~guarded_tensor() { ::munmap(base_, whole_); }
  guarded_tensor(guarded_tensor const&) = delete;
  guarded_tensor& operator=(guarded_tensor const&) = delete;

  template <class T>
  [[nodiscard]] T* as() noexcept { return reinterpret_cast<T*>(data_); }
  template <class T>
  void take(std::vector<T> const& from) {
    std::memcpy(data_, from.data(), bytes_);
    ::mprotect(base_, room_, PROT_READ);
  }
  template <class T>
  void give(std::vector<T>& to, const char* name) const {
    const auto untouched = [](std::byte b) { return b == std::byte{pattern}; };
    if (!std::all_of(base_, data_, untouched) || !std::all_of(data_ + bytes_, base_ + room_, untouched))
      throw kernel_failure(failure_kind::memory_fault, fmt::format("{}: written beside the tensor", name));
    to.resize(bytes_ / sizeof(T));
    std::memcpy(to.data(), data_, bytes_);
    const auto unwritten = std::count_if(to.begin(), to.end(), [](T x) { return x.to_bits() == never_written<T>; });
    if (unwritten != 0) throw kernel_failure(failure_kind::wrong_output, fmt::format("{}: {} of {} elements never written", name, unwritten, to.size()));
  }

 private:
  static constexpr unsigned char pattern = 0xa7;  // as BF16 and as FP32 a number that no attention gives, -2.5e-15 ... with this fraction
  template <class T>
  static constexpr auto never_written = typename T::bits_type(0xa7a7a7a7u);

  std::byte *base_ = nullptr, *data_ = nullptr;
  std::size_t bytes_, room_ = 0, whole_ = 0;
};

/// Loaded into this process, which is a child.
class loaded_library final : public kernel_under_test {
 public:
  explicit loaded_library(std::string const& path) : name_(path) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw kernel_failure(failure_kind::error, ::dlerror());
    void* symbol = ::dlsym(library, "stickybit_kernel_under_test");
    if (symbol == nullptr) throw kernel_failure(failure_kind::error, fmt::format("{}: no function stickybit_kernel_under_test: expected that of kernel_abi.h", path));
    kernel_ = reinterpret_cast<decltype(&stickybit_kernel_under_test)>(symbol)();
    if (kernel_ == nullptr || kernel_->forward == nullptr) throw kernel_failure(failure_kind::error, fmt::format("{}: no kernel, or none with a forward pass", path));
    if (kernel_->version != STICKYBIT_KERNEL_VERSION) throw kernel_failure(failure_kind::error, fmt::format("{}: version {}: expected {}", path, kernel_->version, STICKYBIT_KERNEL_VERSION));
  }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool has_backward() const override { return kernel_->backward != nullptr; }

  [[nodiscard]] kernel_results run(attention_problem const& p, bool gradients) override {
    guarded_tensor q(2 * p.q.size()), k(2 * p.k.size()), v(2 * p.v.size()), d_o(2 * p.d_o.size());
    q.take(p.q);
    k.take(p.k);
    v.take(p.v);
    d_o.take(p.d_o);
    stickybit_kernel_call call{p.batch, p.heads, p.key_heads, p.queries, p.keys, p.head_dim, p.causal, p.softmax_scale, q.as<std::uint16_t>(), k.as<std::uint16_t>(), v.as<std::uint16_t>(), nullptr};
    kernel_results r;
    const auto rows = std::size_t(p.batch * p.heads * p.queries);
    {
      guarded_tensor o(2 * p.q.size()), lse(4 * rows);
      done("forward", kernel_->forward(kernel_->context, &call, o.as<std::uint16_t>(), kernel_->has_lse != 0 ? lse.as<std::uint32_t>() : nullptr));
      o.give(r.o, "o");
      if (kernel_->has_lse != 0) lse.give(r.lse, "lse");
    }
    if (!gradients) return r;
    if (kernel_->backward == nullptr) throw unsupported_call(fmt::format("{} has no backward pass", name_));
    guarded_tensor o(2 * r.o.size()), lse(4 * r.lse.size()), dq(2 * p.q.size()), dk(2 * p.k.size()), dv(2 * p.k.size());
    o.take(r.o);
    lse.take(r.lse);
    call.d_o = d_o.as<std::uint16_t>();
    done("backward", kernel_->backward(kernel_->context, &call, o.as<std::uint16_t>(), r.lse.empty() ? nullptr : lse.as<std::uint32_t>(), dq.as<std::uint16_t>(), dk.as<std::uint16_t>(),
                                       dv.as<std::uint16_t>()));
    dq.give(r.dq, "dq");
    dk.give(r.dk, "dk");
    dv.give(r.dv, "dv");
    return r;
  }

 private:
  void done(const char* pass, int status) const {
    if (status == STICKYBIT_KERNEL_UNSUPPORTED) throw unsupported_call(fmt::format("{}: does not take this call", name_));
    if (status != 0) throw kernel_failure(failure_kind::error, fmt::format("{}: {} returned {}", name_, pass, status));
  }

  std::string name_;
  stickybit_kernel const* kernel_ = nullptr;
};

/// Asked in a child, so that nothing of the library comes into this process: 0 no backward pass, 1 there is one; else the library cannot be loaded.
bool backward_of(std::string const& path, child_limits limits) {
  detail::child_process child(path, [&](int socket) {
    std::string answer;
    try {
      answer.assign(1, loaded_library(path).has_backward() ? '1' : '0');
    } catch (std::exception const& error) {
      answer = error.what();
    }
    const auto size = std::uint64_t(answer.size());
    (void)(detail::write_all(socket, std::as_bytes(std::span(&size, 1))) && detail::write_all(socket, std::as_bytes(std::span(answer))));
  });
  const auto until = detail::child_process::clock::now() + std::chrono::milliseconds(std::int64_t(limits.seconds * 1000));
  std::uint64_t size = 0;
  child.read(std::as_writable_bytes(std::span(&size, 1)), until);
  std::string answer(std::size_t(std::min<std::uint64_t>(size, 10'000)), ' ');
  child.read(std::as_writable_bytes(std::span(answer)), until);
  if (answer != "0" && answer != "1") throw kernel_failure(failure_kind::error, answer);
  return answer == "1";
}

}  // namespace

std::unique_ptr<kernel_under_test> library_kernel(std::string const& path, child_limits limits) {
  const std::string found = path.find('/') == path.npos ? fmt::format("./{}", path) : path;
  return isolated(path, backward_of(found, limits), [found] { return std::make_unique<loaded_library>(found); }, limits);
}

}  // namespace stickybit
