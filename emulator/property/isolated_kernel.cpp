#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <optional>
#include <thread>

#include "child.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/property/kernel.hpp"

namespace stickybit {
namespace {

using detail::child_process;

/// What goes to the child before the tensors.
struct call_header {
  std::int64_t batch, heads, key_heads, queries, keys, head_dim, layout, causal, call_heads, sm_count, has_gradient, gradients;
  double softmax_scale;
};
enum class answer : std::int64_t { results, unsupported, failed };
/// What comes back before the tensors, or before a text of `sizes[0]` bytes.
struct answer_header {
  answer kind;
  std::int64_t failure;
  std::int64_t sizes[5];
};

template <class T>
std::span<std::byte const> bytes_of(std::vector<T> const& x) { return std::as_bytes(std::span(x)); }
template <class T>
std::span<std::byte const> bytes_of(T const& x) { return std::as_bytes(std::span(&x, 1)); }
template <class T>
std::span<std::byte> bytes_into(std::vector<T>& x) { return std::as_writable_bytes(std::span(x)); }
template <class T>
std::span<std::byte> bytes_into(T& x) { return std::as_writable_bytes(std::span(&x, 1)); }

bool read_call(int socket, attention_problem& p, bool& gradients) {
  call_header h{};
  if (!detail::read_all(socket, bytes_into(h))) return false;
  p = {.batch = h.batch, .heads = h.heads, .key_heads = h.key_heads, .queries = h.queries, .keys = h.keys, .head_dim = h.head_dim, .layout = tensor_layout(h.layout), .causal = h.causal != 0,
       .softmax_scale = h.softmax_scale, .call_heads = h.call_heads, .sm_count = h.sm_count, .q = {}, .k = {}, .v = {}, .d_o = {}};
  gradients = h.gradients != 0;
  p.q.resize(std::size_t(h.batch * h.heads * h.queries * h.head_dim));
  p.k.resize(std::size_t(h.batch * h.key_heads * h.keys * h.head_dim));
  p.v.resize(p.k.size());
  if (h.has_gradient != 0) p.d_o.resize(p.q.size());
  return detail::read_all(socket, bytes_into(p.q)) && detail::read_all(socket, bytes_into(p.k)) && detail::read_all(socket, bytes_into(p.v)) && detail::read_all(socket, bytes_into(p.d_o));
}

void say(int socket, answer kind, failure_kind failure, std::string const& text) {
  const answer_header h{kind, std::int64_t(failure), {std::int64_t(text.size()), 0, 0, 0, 0}};
  (void)(detail::write_all(socket, bytes_of(h)) && detail::write_all(socket, std::as_bytes(std::span(text))));
}

/// The child: one call after the other.
void serve(int socket, std::function<std::unique_ptr<kernel_under_test>()> const& make) {
  std::unique_ptr<kernel_under_test> kernel;
  attention_problem p;
  for (bool gradients = false; read_call(socket, p, gradients);) {
    try {
      if (!kernel) kernel = make();
      const kernel_results r = kernel->run(p, gradients);
      const answer_header h{answer::results, 0, {std::int64_t(r.o.size()), std::int64_t(r.lse.size()), std::int64_t(r.dq.size()), std::int64_t(r.dk.size()), std::int64_t(r.dv.size())}};
      if (!(detail::write_all(socket, bytes_of(h)) && detail::write_all(socket, bytes_of(r.o)) && detail::write_all(socket, bytes_of(r.lse)) && detail::write_all(socket, bytes_of(r.dq)) &&
            detail::write_all(socket, bytes_of(r.dk)) && detail::write_all(socket, bytes_of(r.dv))))
        return;
    } catch (unsupported_call const& error) {
      say(socket, answer::unsupported, {}, error.what());
    } catch (kernel_failure const& error) {
      say(socket, answer::failed, error.kind, error.what());
    } catch (std::exception const& error) {
      say(socket, answer::failed, failure_kind::error, error.what());
    }
  }
}

class isolated_kernel final : public kernel_under_test {
 public:
  isolated_kernel(std::string name, bool has_backward, std::function<std::unique_ptr<kernel_under_test>()> make, child_limits limits)
      : name_(std::move(name)), has_backward_(has_backward), make_(std::move(make)), limits_(limits) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool has_backward() const override { return has_backward_; }

  [[nodiscard]] kernel_results run(attention_problem const& p, bool gradients) override {
    try {
      if (!child_) start();
      return exchange(p, gradients);
    } catch (kernel_failure const&) {
      child_.reset();
      throw;
    }
  }

 private:
  void start() {
    child_.emplace(name_, [this](int socket) {
      // A thread of its own: OpenMP's pool belongs to the thread that forked, and its workers are not in this process.
      std::thread([&] { serve(socket, make_); }).join();
      ::_exit(0);
    });
  }

  kernel_results exchange(attention_problem const& p, bool gradients) {
    const auto until = child_process::clock::now() + std::chrono::milliseconds(std::int64_t(limits_.seconds * 1000));
    const call_header h{p.batch, p.heads, p.key_heads, p.queries, p.keys, p.head_dim, std::int64_t(p.layout), p.causal, p.call_heads, p.sm_count, !p.d_o.empty(), gradients, p.softmax_scale};
    child_->write(bytes_of(h), until);
    for (auto const* codes : {&p.q, &p.k, &p.v, &p.d_o}) child_->write(bytes_of(*codes), until);
    answer_header a{};
    child_->read(bytes_into(a), until);
    if (a.kind != answer::results) {
      std::string text(std::size_t(std::min<std::int64_t>(a.sizes[0], 10'000)), ' ');
      child_->read(std::as_writable_bytes(std::span(text)), until);
      if (a.kind == answer::unsupported) throw unsupported_call(text);
      throw kernel_failure(failure_kind(a.failure), text);
    }
    const auto most = std::int64_t(std::max(p.q.size(), p.k.size()) + std::size_t(p.batch * p.heads * p.queries));
    for (std::int64_t size : a.sizes)
      if (size < 0 || size > most) throw kernel_failure(failure_kind::wrong_output, fmt::format("{}: a result of {} elements", name_, size));
    kernel_results r;
    r.o.resize(std::size_t(a.sizes[0]));
    r.lse.resize(std::size_t(a.sizes[1]));
    r.dq.resize(std::size_t(a.sizes[2]));
    r.dk.resize(std::size_t(a.sizes[3]));
    r.dv.resize(std::size_t(a.sizes[4]));
    child_->read(bytes_into(r.o), until);
    child_->read(bytes_into(r.lse), until);
    for (auto* codes : {&r.dq, &r.dk, &r.dv}) child_->read(bytes_into(*codes), until);
    require_sizes(p, r, gradients);
    return r;
  }

  std::string name_;
  bool has_backward_;
  std::function<std::unique_ptr<kernel_under_test>()> make_;
  child_limits limits_;
  std::optional<child_process> child_;
};

}  // namespace

std::unique_ptr<kernel_under_test> isolated(std::string name, bool has_backward, std::function<std::unique_ptr<kernel_under_test>()> make, child_limits limits) {
  return std::make_unique<isolated_kernel>(std::move(name), has_backward, std::move(make), limits);
}

}  // namespace stickybit
