#include "drawing.hpp"
#include "generator_parts.hpp"

namespace stickybit::detail {
namespace {

void values_one(case_space const&, attention_problem& p, study_random&) {
  for (bf16_code& c : p.v) c = bf16_of(1);
}
void values_one_signed(case_space const&, attention_problem& p, study_random& random) {
  const bool negative = one_in(random, 2);
  for (bf16_code& c : p.v) c = bf16_of((negative ? -1 : 1) * (1 + random.uniform()));
}
void values_identity(case_space const&, attention_problem& p, study_random&) {
  for (bf16_code& c : p.v) c = bf16_code::zero();
  each_key(p, [&](auto b, auto h, auto j) { p.v[key_at(p, b, h, j, j % p.head_dim)] = bf16_of(1); });
}
void values_large(case_space const&, attention_problem& p, study_random& random) {
  for (bf16_code& c : p.v) c = code_at(random, 127 - int(random.below(2)), one_in(random, 2));
}
void values_key_number(case_space const&, attention_problem& p, study_random&) {
  each_key(p, [&](auto b, auto h, auto j) {
    for (std::int64_t c = 0; c < p.head_dim; ++c) p.v[key_at(p, b, h, j, c)] = bf16_of(double(j % 101 + 1) * (c % 2 == 0 ? 1 : -0.5) + double(h + 3 * b) * 16);
  });
}

void gradient_one(case_space const&, attention_problem& p, study_random&) {
  for (bf16_code& c : p.d_o) c = bf16_of(1);
}
void gradient_one_signed(case_space const&, attention_problem& p, study_random& random) {
  for (bf16_code& c : p.d_o) c = bf16_of(-(0.25 + random.uniform()));
}
void gradient_tiny(case_space const&, attention_problem& p, study_random& random) {
  for (bf16_code& c : p.d_o) c = code_at(random, -100 - int(random.below(20)), one_in(random, 2));
}
void gradient_one_row(case_space const&, attention_problem& p, study_random& random) {
  const std::int64_t row = random.below(p.queries);
  each_query(p, [&](auto b, auto h, auto i) {
    for (std::int64_t c = 0; c < p.head_dim && i != row; ++c)
      if (!p.d_o.empty()) p.d_o[query_at(p, b, h, i, c)] = bf16_code::zero();
  });
}

bf16_code& any(std::vector<bf16_code>& codes, study_random& random) { return codes[std::size_t(random.below(std::int64_t(codes.size())))]; }
void nan(case_space const&, attention_problem& p, study_random& random) {
  const std::int64_t n = 1 + random.below(3);
  for (std::int64_t i = 0; i < n; ++i) {
    auto* codes = random.below(4) == 0 ? &p.q : one_in(random, 2) ? &p.k : &p.v;
    any(*codes, random) = bf16_code::from_bits(std::uint16_t((0x7f81 + random.below(126)) | (one_in(random, 2) ? 0x8000 : 0)));
  }
}
void infinity(case_space const&, attention_problem& p, study_random& random) {
  const std::int64_t n = 1 + random.below(3);
  for (std::int64_t i = 0; i < n; ++i) {
    auto* codes = random.below(4) == 0 ? &p.q : one_in(random, 2) ? &p.k : &p.v;
    any(*codes, random) = bf16_code::infinity(one_in(random, 2));
  }
}
/// In the last keys' V and K, which a causal mask hides from most rows.
void hidden_nan(case_space const&, attention_problem& p, study_random& random) {
  each_key(p, [&](auto b, auto h, auto j) {
    if (j < p.keys - 1 - p.keys / 8) return;
    const std::size_t at = key_at(p, b, h, j, random.below(p.head_dim));
    (one_in(random, 2) ? p.k : p.v)[at] = one_in(random, 2) ? bf16_code::nan() : bf16_code::infinity();
  });
}
void gradient_special(case_space const&, attention_problem& p, study_random& random) {
  if (!p.d_o.empty()) any(p.d_o, random) = one_in(random, 2) ? bf16_code::nan() : bf16_code::infinity();
}
void duplicate_keys(case_space const&, attention_problem& p, study_random& random) {
  const std::int64_t from = random.below(p.keys), to = random.below(p.keys);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.key_heads; ++h)
      for (std::int64_t c = 0; c < p.head_dim; ++c) p.k[key_at(p, b, h, to, c)] = p.k[key_at(p, b, h, from, c)];
}

}  // namespace

void append_value_generators(std::vector<generator>& all) {
  constexpr auto values = generator_part::values, gradient = generator_part::gradient, overlay = generator_part::overlay;
  all.insert(all.end(), {
    {"values-one", values, "V = 1: O is the sum of the weights over itself", true, 2, values_one},
    {"values-one-signed", values, "V between 1 and 2 in magnitude, of one sign: O shows every cut", true, 2, values_one_signed},
    {"values-identity", values, "V the unit vectors: O is the row of weights itself", true, 2, values_identity},
    {"values-large", values, "V at the end of the range: sums that overflow before they are divided", false, 1, values_large},
    {"values-key-number", values, "V says which key, head and batch element it belongs to", true, 2, values_key_number},
    {"gradient-one", gradient, "dO = 1: dV is the sum of a column of P", true, 1, gradient_one},
    {"gradient-one-signed", gradient, "dO of one sign: delta and dV show every cut", true, 2, gradient_one_signed},
    {"gradient-tiny", gradient, "dO near 2^-100: dP, dS and their products in the subnormal range", true, 1, gradient_tiny},
    {"gradient-one-row", gradient, "dO of one row alone: which rows reach dK and dV", true, 1, gradient_one_row},
    {"nan", overlay, "NaN with payloads in q, k, v", false, 2, nan},
    {"infinity", overlay, "infinities in q, k, v", false, 2, infinity},
    {"hidden-nan", overlay, "NaN and infinities in the last keys, which most rows of a causal call must not see", false, 2, hidden_nan},
    {"gradient-special", overlay, "NaN or infinity in dO", false, 1, gradient_special},
    {"duplicate-keys", overlay, "two equal keys, anywhere", true, 2, duplicate_keys},
  });
}

}  // namespace stickybit::detail
