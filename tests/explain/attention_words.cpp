// What is said of an element of attention: its levels, its numbers, its width.
#include "stickybit/explain/attention_teller.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

/// Columns as a terminal counts them: a byte that continues a character takes none.
std::size_t columns(std::string const& line) {
  return std::size_t(std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::size_t widest(std::string const& text) {
  std::istringstream lines(text);
  std::size_t most = 0;
  for (std::string line; std::getline(lines, line);) most = std::max(most, columns(line));
  return most;
}

}  // namespace

TEST_CASE("words of attention: every tensor at every level ends with its code", "[explain][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem p = read_problem(file);
  for (const char* name : {"fa3", "fa2-torch", "cudnn"}) {
    const attention_schedule schedule = attention_schedule_named(name);
    const forward_result forward = attention_forward(schedule, p);
    for (std::string_view tensor : explained_tensors()) {
      const element_place at{0, 1, 200, 17};
      const account a = account_of(schedule, p, tensor, at, forward);
      const told_element e{schedule, p, tensor, at, a};
      INFO(name << " " << tensor);
      const std::string paragraph = tell(e, detail_level::paragraph), screen = tell(e, detail_level::screen);
      account_step const& last = a[a.size() - 1];
      const std::string code = last.result == format::bf16 ? hex_code(bf16_code::from_bits(std::uint16_t(last.bits))) : hex_code(f32_code::from_bits(last.bits));
      CHECK_THAT(paragraph, Contains(code));
      CHECK_THAT(screen, Contains("result ") && Contains(code));
      CHECK(std::ranges::count(paragraph, '\n') <= 8);
      CHECK(std::ranges::count(screen, '\n') <= 60);
      CHECK(widest(paragraph) <= 110);
      CHECK(widest(screen) <= 120);
    }
  }
}

TEST_CASE("words of attention: the shares of an error add up to it", "[explain]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem p = read_problem(file);
  const attention_schedule schedule = attention_schedule_named("fa3");
  const forward_result forward = attention_forward(schedule, p);
  for (std::string_view tensor : {"o", "lse", "delta", "dq", "dk", "dv", "ds"})
    for (std::int64_t i = 0; i < 6; ++i) {
      const account a = account_of(schedule, p, tensor, {0, i % 2, 31 + 57 * i, (13 * i) % 64}, forward);
      const error_shares shares = share_error(a);
      INFO(tensor << " " << i);
      REQUIRE(shares.steps.size() == a.size());
      double sum = shares.not_linear, groups = shares.not_linear;
      for (double x : shares.steps) sum += x;
      for (double x : shares.constants) sum += x;
      for (error_group const& g : group_shares(a, shares)) groups += g.sum;
      CHECK(sum == Approx(shares.total).margin(1e-9));
      CHECK(groups == Approx(shares.total).margin(1e-9));
      // First order is nearly all there is: errors are small.
      CHECK(std::fabs(shares.not_linear) <= 0.02 * std::fabs(shares.total) + 1e-3);
      CHECK(shares.total == Approx(a.error_in_ulp(a.size() - 1)));
    }
}

TEST_CASE("words of attention: a row without keys, one key, NaN, split keys", "[explain][golden]") {
  const auto words = [](const char* file_name, const char* name, std::string_view tensor, element_place at) {
    const attention_problem p = read_problem(golden(file_name));
    const attention_schedule schedule = attention_schedule_named(name);
    const forward_result forward = attention_forward(schedule, p);
    const account a = account_of(schedule, p, tensor, at, forward);
    return tell({schedule, p, tensor, at, a}, detail_level::screen);
  };
  // Causal to the last key: with 200 queries and 130 keys the first 70 rows see none.
  CHECK_THAT(words("faint_b1_q200_k130_h1x1_d128_c1.safetensors", "fa3", "o", {0, 0, 3, 5}), Contains("The row sees 0 keys") && Contains("which is the mathematical value"));
  CHECK_THAT(words("faint_b1_q200_k130_h1x1_d128_c1.safetensors", "fa3", "o", {0, 0, 70, 5}), Contains("The row sees 1 key"));
  CHECK_THAT(words("nando_b1_q150_k256_h2x2_d64_c0.safetensors", "fa3", "dq", {0, 0, 149, 5}), Contains("result "));
  CHECK_THAT(words("one_b1_q1_k200_h2x2_d64_c0.safetensors", "fa2-torch-splitkv", "o", {0, 1, 0, 3}), Contains("result "));
}
