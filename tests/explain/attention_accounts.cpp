// Accounts of attention: they end with the codes that the hardware recorded and the emulator gives, and every step of them can be had again.
#include "stickybit/explain/attention_account.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

constexpr std::array results{"o", "lse", "lse_log2", "delta", "dv", "dk", "dq"};

/// Elements spread over a tensor, first and last among them.
std::vector<element_place> places(attention_problem const& p, std::string_view tensor, int count) {
  const bool of_key = tensor == "dk" || tensor == "dv";
  const std::int64_t heads = of_key ? p.key_heads : p.heads, rows = of_key ? p.keys : p.queries;
  std::vector<element_place> chosen;
  for (int i = 0; i < count; ++i) {
    const auto spread = [&](std::int64_t size, std::int64_t step) { return i == 0 ? 0 : i == 1 ? size - 1 : (i * step + 5) % size; };
    chosen.push_back({spread(p.batch, 1), spread(heads, 3), spread(rows, 101), spread(p.head_dim, 29)});
  }
  return chosen;
}

std::int64_t index_of(attention_problem const& p, std::string_view tensor, element_place at, std::int64_t padded) {
  if (tensor == "dk" || tensor == "dv") return p.key_strides().offset(at.batch, at.head, at.row) + at.column;
  if (tensor == "o" || tensor == "dq") return p.query_strides().offset(at.batch, at.head, at.row) + at.column;
  return (at.batch * p.heads + at.head) * padded + at.row;
}

template <class Code>
std::uint32_t canonical(Code c) {
  return c.is_nan() ? Code::nan().to_bits() : c.to_bits();
}

std::uint32_t canonical_last(account const& a) {
  account_step const& last = a[a.size() - 1];
  return last.result == format::bf16 ? canonical(bf16_code::from_bits(std::uint16_t(last.bits))) : canonical(f32_code::from_bits(last.bits));
}

std::uint32_t recorded(tensor_file const& file, std::string const& name, attention_problem const& p, std::string_view tensor, element_place at, std::int64_t padded) {
  const auto i = std::size_t(index_of(p, tensor, at, padded));
  if (file.find(name)->type == dtype::bf16) return canonical(file.find(name)->elements<bf16_code>()[i]);
  return canonical(file.find(name)->elements<f32_code>()[i]);
}

/// Accounts of some elements of everything that a capture holds; how many were compared.
int compare_capture(tensor_file const& file, int per_tensor) {
  attention_problem p = read_problem(file);
  int compared = 0;
  for (attention_schedule const& schedule : all_attention_schedules()) {
    if (schedule.kind != schedule_kind::online) continue;
    std::string producer(schedule.name);
    std::ranges::replace(producer, '-', '_');
    p.call_heads = whole_number(file, producer + ".heads", p.heads);
    forward_result forward;
    for (const char* tensor : results) {
      const std::string name = producer + "." + tensor;
      if (file.find(name) == nullptr) continue;
      try {
        if (forward.o.empty()) forward = attention_forward(schedule, p);
        const std::int64_t padded = tensor == std::string_view("lse") ? p.queries : p.d_o.empty() ? p.queries : padded_rows(schedule, p);
        for (element_place at : places(p, tensor, per_tensor)) {
          const account a = account_of(schedule, p, tensor, at, forward);
          INFO(name << " batch " << at.batch << " head " << at.head << " row " << at.row << " column " << at.column);
          CHECK(canonical_last(a) == recorded(file, name, p, tensor, at, padded));
          CHECK_FALSE(replay(a).has_value());
          ++compared;
        }
      } catch (unsupported_call const& e) {
        std::cout << "not told: " << name << ": " << e.what() << "\n";
      }
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("account: the last step of every golden capture's elements is the recorded code, and replay agrees", "[explain][golden]") {
  int compared = 0;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200")) {
    if (entry.path().extension() != ".safetensors") continue;
    const tensor_file file = tensor_file::load(entry.path());
    if (file.find("q") == nullptr) continue;
    INFO(entry.path().filename().string());
    compared += compare_capture(file, 5);
  }
  std::cout << "accounts compared with recorded codes: " << compared << "\n";
  CHECK(compared > 400);
}

namespace {

/// A call with ties, two tiles of keys and grouped heads.
attention_problem small_call(bool causal) {
  attention_problem p{.batch = 1, .heads = 2, .key_heads = 1, .queries = 150, .keys = 200, .head_dim = 64, .causal = causal, .softmax_scale = 0.125, .q = {}, .k = {}, .v = {}, .d_o = {}};
  std::uint32_t state = 12345;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return convert<format::bf16>(code_of((float(state >> 8) / float(1 << 24) - 0.6f) * 3));
  };
  p.q.resize(std::size_t(p.queries * p.heads * p.head_dim));
  p.k.resize(std::size_t(p.keys * p.key_heads * p.head_dim));
  p.v.resize(p.k.size());
  p.d_o.resize(p.q.size());
  for (auto* m : {&p.q, &p.k, &p.v, &p.d_o})
    for (bf16_code& c : *m) c = next();
  for (std::size_t i = 0; i < std::size_t(p.head_dim); ++i) p.k[std::size_t(3 * p.head_dim) + i] = p.k[std::size_t(170 * p.head_dim) + i] = p.k[i];
  return p;
}

void compare_with_emulator(attention_schedule const& schedule, attention_problem const& p, std::string const& what, int& compared) {
  INFO(what);
  const forward_result f = attention_forward(schedule, p);
  std::optional<backward_result> g;
  try {
    g = attention_backward(schedule, p, f);
  } catch (unsupported_call const&) {
  }
  const auto check = [&](std::string_view tensor, auto const& codes) {
    for (element_place at : places(p, tensor, 3)) {
      try {
        const account a = account_of(schedule, p, tensor, at, f);
        INFO(tensor << " head " << at.head << " row " << at.row << " column " << at.column);
        CHECK(canonical_last(a) == canonical(codes[std::size_t(index_of(p, tensor, at, p.queries))]));
        CHECK_FALSE(replay(a).has_value());
        ++compared;
      } catch (unsupported_call const& e) {
        CHECK(schedule.kind == schedule_kind::eager);
      }
    }
  };
  check("o", f.o);
  check("lse", f.lse);
  if (!g) return;
  check("delta", g->delta);
  check("dq", g->dq);
  check("dk", g->dk);
  check("dv", g->dv);
}

}  // namespace

TEST_CASE("account: equals the emulator for every schedule and every fix", "[explain]") {
  int compared = 0;
  for (bool causal : {false, true}) {
    const attention_problem p = small_call(causal);
    for (attention_schedule const& schedule : all_attention_schedules())
      if (schedule.kind != schedule_kind::exact_value) compare_with_emulator(schedule, p, std::string(schedule.name), compared);
    for (const char* fix : {"beta", "beta:preset=v2", "subtract-first", "two-row-sums", "k-smooth", "gproj", "gproj:weights=uniform", "gproj:targets=all", "delta-fp32", "delta-hilo", "delta-mma",
                            "delta-pdp", "fp32", "fp32-backward", "beta+gproj"})
      for (const char* base : {"fa3", "fa2-torch"}) compare_with_emulator(with_fixes(attention_schedule_named(base), fix), p, fmt::format("{} {}", base, fix), compared);
  }
  std::cout << "accounts compared with the emulator: " << compared << "\n";
  CHECK(compared > 900);
}

TEST_CASE("account: the exact value beside the last step is the mathematical one", "[explain]") {
  const attention_problem p = small_call(true);
  const attention_schedule schedule = attention_schedule_named("fa3");
  const forward_result f = attention_forward(schedule, p);
  const mask_alignment mask = mask_of(schedule, p);
  const exact_rows o = exact_head(p, mask, 0, 1).evaluate();
  const head_gradients g0 = exact_gradients_of_head(p, mask, 0, 0).evaluate(), g1 = exact_gradients_of_head(p, mask, 0, 1).evaluate();
  const auto last = [&](std::string_view tensor, element_place at) {
    const account a = account_of(schedule, p, tensor, at, f);
    return a[a.size() - 1].exact;
  };
  const auto close = [](double_double x, double_double exact, double size) {
    CHECK(std::fabs(to_double(x - exact)) <= std::ldexp(size, -80));
    CHECK(std::fabs(exact.hi) > 0);
  };
  for (std::int64_t i = 0; i < 8; ++i) {
    const std::int64_t row = 7 + 19 * i, column = (11 * i) % 64;
    const auto at = std::size_t(row * 64 + column);
    close(last("o", {0, 1, row, column}), o.o[at], 1);
    close(last("lse", {0, 1, row, 0}), o.lse[std::size_t(row)], 1);
    close(last("delta", {0, 1, row, 0}), g1.delta[std::size_t(row)], 16);
    close(last("dq", {0, 1, row, column}), g1.dq[at], 16);
    close(last("dk", {0, 0, row, column}), g0.dk[at] + g1.dk[at], 1024);
    close(last("dv", {0, 0, row, column}), g0.dv[at] + g1.dv[at], 1024);
  }
}

TEST_CASE("account: an operand that is another makes replay stop at its step", "[explain]") {
  const attention_problem p = small_call(false);
  const account a = account_of(attention_schedule_named("fa3"), p, "o", {0, 0, 3, 5});
  account changed(a.tables());
  std::size_t altered = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<account_operand> operands(a.operands(i).begin(), a.operands(i).end());
    if (altered == 0 && a[i].op == operation::block_fma) {
      operands[0].bits ^= 0x40;
      altered = i + 1;
    }
    changed.record(a[i], operands);
    if (altered == i + 1) break;
  }
  REQUIRE(altered > 0);
  CHECK(changed[altered - 1].bits != a[altered - 1].bits);
  CHECK_FALSE(replay(changed).has_value());
}

TEST_CASE("account: what is not there is refused by name", "[explain]") {
  const attention_problem p = small_call(false);
  const attention_schedule fa3 = attention_schedule_named("fa3");
  const forward_result f = attention_forward(fa3, p);
  CHECK_THROWS_WITH(account_of(fa3, p, "o", {0, 0, 3, 64}), "column 64: expected 0 to 63");
  CHECK_THROWS_WITH(account_of(fa3, p, "dk", {0, 1, 3, 0}, f), "key head 1: expected 0 to 0");
  CHECK_THROWS_WITH(account_of(fa3, p, "dv", {0, 0, 200, 0}, f), "key 200: expected 0 to 199");
  CHECK_THROWS_WITH(account_of(fa3, p, "ds", {0, 0, 0, 200}, f), "key 200: expected 0 to 199");
  CHECK_THROWS_AS(account_of(fa3, p, "dq", {0, 0, 3, 0}), std::invalid_argument);
  CHECK_THROWS_AS(account_of(fa3, p, "o_f32", {0, 0, 3, 0}), std::invalid_argument);
  CHECK_THROWS_AS(account_of(attention_schedule_named("exact"), p, "o", {0, 0, 3, 0}), unsupported_call);
}
