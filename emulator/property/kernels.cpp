#include <fmt/format.h>

#include "stickybit/attention/backward.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/property/kernel.hpp"

namespace stickybit {
namespace {

class callable final : public kernel_under_test {
 public:
  callable(std::string name, forward_function forward, backward_function backward) : name_(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool has_backward() const override { return bool(backward_); }
  [[nodiscard]] kernel_results run(attention_problem const& problem, bool gradients) override {
    kernel_results r;
    try {
      forward_(problem, r);
      if (gradients && backward_) backward_(problem, r);
    } catch (unsupported_call const&) {
      throw;
    } catch (kernel_failure const&) {
      throw;
    } catch (std::exception const& error) {
      throw kernel_failure(failure_kind::error, fmt::format("{}: exception: {}", name_, error.what()));
    }
    require_sizes(problem, r, gradients && has_backward());
    return r;
  }

 private:
  std::string name_;
  forward_function forward_;
  backward_function backward_;
};

class emulated final : public kernel_under_test {
 public:
  emulated(std::string name, attention_schedule schedule) : name_(std::move(name)), schedule_(schedule) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool has_backward() const override { return !schedule_.backward_tiles.empty(); }
  [[nodiscard]] kernel_results run(attention_problem const& problem, bool gradients) override {
    kernel_results r;
    forward_result forward = attention_forward(schedule_, problem);
    if (gradients) {
      backward_result g = attention_backward(schedule_, problem, forward);
      r.dq = std::move(g.dq);
      r.dk = std::move(g.dk);
      r.dv = std::move(g.dv);
    }
    r.o = std::move(forward.o);
    r.lse = std::move(forward.lse);
    return r;
  }

 private:
  std::string name_;
  attention_schedule schedule_;
};

}  // namespace

std::string_view name_of(failure_kind kind) noexcept {
  switch (kind) {
    case failure_kind::crashed: return "crash";
    case failure_kind::memory_fault: return "memory fault";
    case failure_kind::hung: return "hang";
    case failure_kind::wrong_output: return "wrong output";
    case failure_kind::error: return "error";
  }
  return {};
}

void require_sizes(attention_problem const& p, kernel_results const& r, bool gradients) {
  const auto need = [](const char* name, std::size_t expected, std::size_t found) {
    if (found != expected) throw kernel_failure(failure_kind::wrong_output, fmt::format("{}: expected {} elements, found {}", name, expected, found));
  };
  need("o", p.q.size(), r.o.size());
  if (!r.lse.empty()) need("lse", std::size_t(p.batch * p.heads * p.queries), r.lse.size());
  if (!gradients) return;
  need("dq", p.q.size(), r.dq.size());
  need("dk", p.k.size(), r.dk.size());
  need("dv", p.v.size(), r.dv.size());
}

std::unique_ptr<kernel_under_test> callable_kernel(std::string name, forward_function forward, backward_function backward) {
  return std::make_unique<callable>(std::move(name), std::move(forward), std::move(backward));
}
std::unique_ptr<kernel_under_test> emulated_kernel(std::string const& schedule) { return std::make_unique<emulated>(fmt::format("emulated:{}", schedule), schedule_from(schedule)); }
std::unique_ptr<kernel_under_test> emulated_kernel(std::string name, attention_schedule schedule) { return std::make_unique<emulated>(std::move(name), schedule); }

std::unique_ptr<kernel_under_test> kernel_named(std::string const& text, bool gradients, child_limits limits) {
  if (text.starts_with("emulated:")) return emulated_kernel(text.substr(9));
  if (text.starts_with("lib:")) return library_kernel(text.substr(4), limits);
  if (text.starts_with("cmd:")) return program_kernel(text.substr(4), gradients, limits);
  if (text.starts_with("serve:")) return server_kernel(text.substr(6), gradients, limits);
  if (text.ends_with(".so")) return library_kernel(text, limits);
  throw std::invalid_argument(fmt::format("kernel '{}': expected emulated:SCHEDULE[@UNIT][+FIX], lib:PATH (or a path that ends in .so), cmd:COMMAND or serve:COMMAND", text));
}

}  // namespace stickybit
