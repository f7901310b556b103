#include <cstring>
#include <limits>
#include <string>

#include "inputs.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// One query (1, 0), three visible keys with scores 1, 2, 3 and a second k column of ones, V = (1, 2, 4) in two columns.
head small_head() {
  head h{matrix(1, 2), matrix(3, 2), matrix(3, 2), 1, mask_alignment::none};
  h.q.at(0, 0) = bf16(1);
  h.q.at(0, 1) = bf16(0);
  for (std::size_t j = 0; j < 3; ++j) {
    h.k.at(j, 0) = bf16(double(j + 1));
    h.k.at(j, 1) = bf16(1);
    h.v.at(j, 0) = h.v.at(j, 1) = bf16(double(1 << j));
  }
  return h;
}

exact_rows evaluate(head const& h) { return exact_attention(h.q.view(), h.k.view(), h.v.view(), h.scale, h.mask).evaluate(); }

}  // namespace

TEST_CASE("exact_attention: NaN and infinity at masked keys change no bit, 200 causal heads, every row, seed 13", "[exact][unit]") {
  head_maker maker(13);
  int poisoned_rows = 0, different = 0;
  for (int n = 0; n < 200; ++n) {
    head h = maker.make(n % 2 ? kind::gaussian : kind::wide_exponents);
    h.mask = n % 3 ? mask_alignment::bottom_right : mask_alignment::top_left;
    const exact_rows clean = evaluate(h);
    for (std::size_t i = 0; i < h.q.rows; ++i) {
      head poisoned = h;
      const std::size_t visible = visible_keys(h.mask, i, h.q.rows, h.k.rows);
      poisoned_rows += visible < h.k.rows;
      for (std::size_t j = visible; j < h.k.rows; ++j) {
        const bf16_code poison = j % 3 == 0 ? bf16_code::nan() : bf16_code::infinity(j % 3 == 1);
        for (std::size_t c = 0; c < h.k.columns; ++c) poisoned.k.at(j, c) = poison;
        for (std::size_t c = 0; c < h.v.columns; ++c) poisoned.v.at(j, c) = poison;
      }
      const exact_rows got = exact_attention(poisoned.q.view(), poisoned.k.view(), poisoned.v.view(), h.scale, h.mask).evaluate(i, 1);
      different += std::memcmp(got.o.data(), clean.o.data() + i * h.v.columns, h.v.columns * sizeof(double_double)) != 0;
      different += std::memcmp(got.lse.data(), clean.lse.data() + i, sizeof(double_double)) != 0;
    }
  }
  CAPTURE(poisoned_rows);
  CHECK(poisoned_rows > 200);
  CHECK(different == 0);
}

TEST_CASE("exact_attention: a visible NaN score makes the row NaN", "[exact][unit]") {
  for (std::size_t column : {0, 1}) {  // column 1 is 0 in q: 0·infinity
    head h = small_head();
    h.k.at(1, column) = column == 0 ? bf16_code::nan() : bf16_code::infinity();
    const exact_rows got = evaluate(h);
    CHECK(std::isnan(got.o[0].hi));
    CHECK(std::isnan(got.lse[0].hi));
    CHECK(got.count_without_keys == 0);
  }
}

TEST_CASE("exact_attention: infinite scores", "[exact][unit]") {
  head h = small_head();
  const exact_rows finite = evaluate(h);
  SECTION("-infinity weighs nothing: as if the key were not there") {
    h.k.at(2, 0) = bf16(-infinity);
    head without = small_head();
    without.k.rows = without.v.rows = 2;
    CHECK(evaluate(h).o[0] == evaluate(without).o[0]);
    CHECK(evaluate(h).lse[0] == evaluate(without).lse[0]);
    CHECK_FALSE(evaluate(h).o[0] == finite.o[0]);
  }
  SECTION("-infinity everywhere: O not determined, lse -infinity") {
    for (std::size_t j = 0; j < 3; ++j) h.k.at(j, 0) = bf16(-infinity);
    CHECK(std::isnan(evaluate(h).o[0].hi));
    CHECK(evaluate(h).lse[0] == double_double{-infinity});
    CHECK(evaluate(h).count_without_keys == 0);
  }
  SECTION("+infinity: O not determined, lse +infinity") {
    h.k.at(1, 0) = bf16(infinity);
    CHECK(std::isnan(evaluate(h).o[0].hi));
    CHECK(evaluate(h).lse[0] == double_double{infinity});
  }
}

TEST_CASE("exact_attention: NaN and infinity in V reach their own column only", "[exact][unit]") {
  head h = small_head();
  const exact_rows finite = evaluate(h);
  const auto with = [&](double first, double last) {
    h.v.at(0, 0) = bf16(first);
    h.v.at(2, 0) = bf16(last);
    return evaluate(h);
  };
  CHECK(with(infinity, 4).o[0] == double_double{infinity});
  CHECK(with(-infinity, -infinity).o[0] == double_double{-infinity});
  CHECK(std::isnan(with(infinity, -infinity).o[0].hi));
  CHECK(std::isnan(with(1, not_a_number).o[0].hi));
  CHECK(evaluate(h).o[1] == finite.o[1]);
  CHECK(evaluate(h).lse[0] == finite.lse[0]);

  h.k.at(0, 0) = bf16(-0x1p100);  // weighs e^-2^100, below double but not 0
  CHECK(with(infinity, 4).o[0] == double_double{infinity});
  h.k.at(0, 0) = bf16(-infinity);  // weighs 0
  CHECK(std::isnan(with(infinity, 4).o[0].hi));
  CHECK(std::isfinite(with(1, 4).o[0].hi));
}
