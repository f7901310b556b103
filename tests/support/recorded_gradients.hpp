#pragma once
#include <fmt/format.h>

#include "stickybit/attention/backward.hpp"
#include "support/recorded.hpp"

namespace stickybit {

struct comparison {
  std::int64_t mismatches = 0, total = 0;
  std::string words;  ///< each tensor's mismatches
};

/// One call's gradients as a kernel gave them, with the O and lse that they come from.
class recorded_gradients {
 public:
  static std::string producer_of(attention_schedule const& schedule) {
    std::string name(schedule.name);
    std::ranges::replace(name, '-', '_');
    return name;
  }
  static bool has(tensor_file const& file, attention_schedule const& schedule) { return file.find(producer_of(schedule) + ".dq") != nullptr; }

  recorded_gradients(tensor_file const& file, attention_schedule const& schedule) : problem_(read_problem(file)) {
    const std::string producer = producer_of(schedule);
    problem_.call_heads = whole_number(file, producer + ".heads", problem_.heads);
    const auto bf16 = [&](const char* name) { return file.require(producer + name, dtype::bf16).elements<bf16_code>(); };
    const auto f32 = [&](const char* name) { return file.find(producer + name) == nullptr ? std::vector<f32_code>{} : file.require(producer + name, dtype::f32).elements<f32_code>(); };
    forward_ = {.o = bf16(".o"), .lse = f32(".lse"), .o_f32 = {}};
    dq_ = bf16(".dq");
    dk_ = bf16(".dk");
    dv_ = bf16(".dv");
    delta_ = f32(".delta");
    lse_log2_ = f32(".lse_log2");
  }

  /// Files of tests/golden/h200 that hold gradients of the schedule's kernel, sorted.
  static std::vector<std::filesystem::path> golden_files(attention_schedule const& schedule) {
    std::vector<std::filesystem::path> files;
    for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200"))
      if (entry.path().extension() == ".safetensors" && has(tensor_file::load(entry.path()), schedule)) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }

  [[nodiscard]] attention_problem const& problem() const noexcept { return problem_; }
  [[nodiscard]] forward_result const& forward() const noexcept { return forward_; }

  /// The schedule's backward pass from the recorded O and lse, code for code, NaN too.
  [[nodiscard]] comparison compare(attention_schedule const& schedule, engine how = engine::fast) const {
    backward_options options;
    options.how = how;
    const backward_result r = attention_backward(schedule, problem_, forward_, options);
    comparison c;
    count("dq", dq_, r.dq, c);
    count("dk", dk_, r.dk, c);
    count("dv", dv_, r.dv, c);
    if (delta_.empty()) return c;
    const std::int64_t rows = padded_rows(schedule, problem_);
    count("delta", delta_, padded(r.delta, rows, f32_code::zero()), c);
    count("lse_log2", lse_log2_, padded(r.lse_log2, rows, f32_code::infinity()), c);
    return c;
  }

 private:
  template <class Code>
  static void count(const char* name, std::vector<Code> const& recorded, std::vector<Code> const& computed, comparison& c) {
    std::int64_t n = recorded.size() == computed.size() ? 0 : std::int64_t(recorded.size());
    for (std::size_t i = 0; i < std::min(recorded.size(), computed.size()); ++i) n += recorded[i] != computed[i];
    c.mismatches += n;
    c.total += std::int64_t(recorded.size());
    c.words += fmt::format("{}{} {}", c.words.empty() ? "" : ", ", name, n);
  }

  [[nodiscard]] std::vector<f32_code> padded(std::vector<f32_code> const& rows, std::int64_t to, f32_code padding) const {
    std::vector<f32_code> all;
    for (std::int64_t i = 0; i < problem_.batch * problem_.heads; ++i) {
      all.insert(all.end(), rows.begin() + i * problem_.queries, rows.begin() + (i + 1) * problem_.queries);
      all.insert(all.end(), std::size_t(to - problem_.queries), padding);
    }
    return all;
  }

  attention_problem problem_;
  forward_result forward_;
  std::vector<bf16_code> dq_, dk_, dv_;
  std::vector<f32_code> delta_, lse_log2_;
};

}  // namespace stickybit
