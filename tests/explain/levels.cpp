// The three levels: what each says, how long it is, colour.
#include "support/accounts.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "stickybit/explain/teller.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t columns(std::string const& line) {
  return std::size_t(std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string without_colour(std::string text) {
  for (std::size_t at; (at = text.find('\x1b')) != text.npos;) text.erase(at, text.find('m', at) - at + 1);
  return text;
}

/// A row of 400 keys as an attention kernel has it: S, x, p, P, running maxima every 16 keys, a chain of FP32 additions, the division.
account attention_like(int keys) {
  account a(*sm90().special_functions);
  a.name_constant(0x3e38aa3b, "L", {0x1.71547652b82fep-3, 0});
  std::mt19937 random(3);
  const auto literal = [](const char* x) { return account_operand{.bits = parse_f32(x).to_bits()}; };
  const auto from = [](std::int32_t step, bool negated = false) { return account_operand{.step = step, .negated = negated}; };
  const auto record = [&](account_step like, std::vector<account_operand> const& operands, quantity name) {
    const std::int32_t step = a.record(like, operands);
    a.name(step, name);
    return step;
  };
  account_operand sum = literal("0"), m = literal("-inf");
  for (std::int32_t i = 0; i < keys; ++i) {
    const std::uint32_t bits = 0x3f800000 + (std::uint32_t(random()) & 0xffffff);
    const std::int32_t s = a.input(format::f32, bits, {to_double(f32_code::from_bits(bits)) + 1e-9, 0}, {"S", i});
    if (i % 16 == 0) m = from(record({.op = operation::maximum}, {m, from(s)}, {"m", i / 16}));
    const std::int32_t scaled = a.record({.op = operation::multiply}, std::vector{m, account_operand{.bits = 0x3e38aa3b}});
    const std::int32_t x = record({.op = operation::fma}, {from(s), account_operand{.bits = 0x3e38aa3b}, from(scaled, true)}, {"x", i});
    const std::int32_t p = record({.op = operation::ex2}, {from(x)}, {"p", i});
    sum = from(a.record({.op = operation::add}, std::vector{sum, from(p)}));
    if (i % 16 == 15) a.name(sum.step, {"l", i / 16, 0});
    record({.op = operation::cast, .result = format::bf16}, {from(p)}, {"P", i});
  }
  const std::int32_t inverse = record({.op = operation::rcp}, {sum}, {"1/sum"});
  record({.op = operation::cast, .result = format::bf16}, {from(inverse)}, {"O"});
  return a;
}

}  // namespace

TEST_CASE("levels: a screen has at most 45 lines of 110 columns, from 1 to 6000 steps; a paragraph a few lines; everything every step", "[explain][property]") {
  std::vector<const char*> many(60, "0.1");
  const std::vector<account> accounts{sum_account({"1", "2"}),
                                      sum_account(many),
                                      dot_account("sm90.wgmma.bf16.f32", std::vector<const char*>(16, "0x1.36p-7")),
                                      dot_account("sm80.mma.bf16.f32", std::vector<const char*>(2000, "0x1.36p-7"), "1e-3"),
                                      account_of_function(operation::expf, parse_f32("-3.3")),
                                      account_of_function(operation::exp2, parse_f32("-130.3")),
                                      account_of_cast(parse_f32("0x1.03p0"), format::bf16),
                                      attention_like(3),
                                      attention_like(400),
                                      attention_like(1000)};
  for (account const& a : accounts) {
    CHECK(!replay(a));
    const auto screen = lines_of(tell(a, detail_level::screen)), paragraph = lines_of(tell(a, detail_level::paragraph)), everything = lines_of(tell(a, detail_level::everything));
    CHECK(screen.size() <= 45);
    CHECK(paragraph.size() <= 7);
    CHECK(everything.size() >= 3 * a.size());
    for (auto const* text : {&screen, &paragraph, &everything})
      for (std::string const& line : *text) {
        CAPTURE(line);
        CHECK(columns(line) <= 110);
      }
  }
}

TEST_CASE("levels: a long account shows of each symbol the first and the last, and formulas without unnamed steps", "[explain]") {
  const std::string text = tell(attention_like(400), detail_level::screen);
  for (const char* words : {"fma(S[0], L, -rn(m[0]·L))", "O is ", "bf16(1/sum)", "m after block 0", "m after block 24", "l[0] after block 24", "The error, by the steps it was made in:", "P["})
    CHECK_THAT(text, Contains(words));
  CHECK_THAT(text, Contains("(-3.7e-10)") && Contains("( ): the exact value is 0"));
}

TEST_CASE("levels: colour changes no word", "[explain]") {
  for (account const& a : {sum_account({"-2.40625", "-0.0008654594421386719", "-2.296875"}), attention_like(40)})
    for (detail_level level : {detail_level::paragraph, detail_level::screen, detail_level::everything}) {
      const std::string coloured = tell(a, level, text_style::ansi);
      CHECK_THAT(coloured, Contains("\x1b[1m"));
      CHECK(without_colour(coloured) == tell(a, level));
    }
  CHECK_THAT(tell(sum_account({"-2.40625", "-2.296875"}), detail_level::screen, text_style::ansi), Contains("kept \x1b[1m-1.0010110\x1b[0m | cut \x1b[2;31m1\x1b[0m") && Contains("\x1b[33m+0.5 ulp"));
}

TEST_CASE("names: quantities in words, unnamed steps by index, a line for each symbol", "[explain]") {
  CHECK(text_of({"S", 17}) == "S[17]");
  CHECK(text_of({"m", 2}) == "m after block 2");
  CHECK(text_of({"r", 2}) == "r of block 2");
  CHECK(text_of({"l", 2, 3}) == "l[3] after block 2");
  CHECK(text_of({"A", 0}) == "A after block 0");
  CHECK(text_of({"part", 5}) == "part of block 5");
  CHECK(text_of({"O"}) == "O");
  CHECK(text_of({"slice", 1, 64}) == "slice 1, k < 64");
  CHECK(text_of({"m", 1, 2}) == "m after block 1 of part 2");
  CHECK(text_of({"sum", -1, 2}) == "sum of part 2");
  CHECK(text_of({}).empty());
  for (const char* symbol : {"S", "x", "p", "P", "m", "r", "l", "sum", "1/sum", "lse", "A", "O/sum", "O", "lse2", "delta", "dP", "dS", "dS^", "part", "dQ", "dK", "dV"}) CHECK(!meaning_of(symbol).empty());
  CHECK(meaning_of("q").empty());
  CHECK(meaning_of(quantity{"S", 17}) == "score of key 17: q·k, not scaled");
  CHECK(meaning_of(quantity{"l", 2, 3}) == "sum of the weights that lane 3 has seen");
  const account a = attention_like(1);
  CHECK(label_of(a, 2) == "t2");
}
