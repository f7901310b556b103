#include <algorithm>
#include <array>

#include "drawing.hpp"
#include "generator_parts.hpp"

namespace stickybit::detail {
namespace {

std::int64_t between(study_random& random, std::int64_t least, std::int64_t most) { return most <= least ? least : least + random.below(most - least + 1); }
std::int64_t queries_in(case_space const& s, std::int64_t n) { return std::clamp(n, s.least_queries, s.most_queries); }
std::int64_t keys_in(case_space const& s, std::int64_t n) { return std::clamp<std::int64_t>(n, 1, s.most_keys); }

void common(case_space const& s, attention_problem& p, study_random& random) {
  p = {};
  p.layout = tensor_layout::b_s_h_d;
  p.head_dim = s.head_dims[std::size_t(random.below(std::int64_t(s.head_dims.size())))];
  p.causal = s.causal[std::size_t(random.below(std::int64_t(s.causal.size())))];
  p.softmax_scale = 1 / std::sqrt(double(p.head_dim));
  static constexpr std::array others{1.0, 0.125, 0.37, 0.05, 2.0, 0.08838834764831845};
  if (s.scales && one_in(random, 5)) p.softmax_scale = others[std::size_t(random.below(others.size()))];
}

void small(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.queries = queries_in(s, between(random, 1, 12));
  p.keys = keys_in(s, between(random, 1, 40));
}

/// A width that tiles have, or twice or thrice that, less one, as it is, or one more.
std::int64_t at_an_edge(study_random& random, std::int64_t most) {
  static constexpr std::array widths{8, 16, 32, 64, 80, 96, 112, 128, 144, 160, 176, 192};
  const std::int64_t times = one_in(random, 2) ? 1 : between(random, 1, 3);
  std::int64_t n = widths[std::size_t(random.below(widths.size()))] * times;
  while (n > most) n /= 2;
  return n + between(random, -1, 1);
}
void edges(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.keys = keys_in(s, at_an_edge(random, s.most_keys));
  p.queries = queries_in(s, one_in(random, 3) ? at_an_edge(random, s.most_queries) : between(random, 1, 16));
}
void square(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.queries = queries_in(s, at_an_edge(random, s.most_queries));
  p.keys = keys_in(s, p.queries);
}
void one_key(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.queries = queries_in(s, between(random, 1, 9));
  p.keys = 1;
}
void empty_rows(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.causal = std::find(s.causal.begin(), s.causal.end(), true) != s.causal.end();
  p.keys = keys_in(s, between(random, 1, 60));
  p.queries = queries_in(s, p.keys + between(random, 1, 40));
}
void long_row(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.queries = queries_in(s, between(random, 1, 4));
  p.keys = keys_in(s, between(random, s.most_keys / 2, s.most_keys));
}
void grouped(case_space const& s, attention_problem& p, study_random& random) {
  common(s, p, random);
  p.queries = queries_in(s, between(random, 1, 10));
  p.keys = keys_in(s, between(random, 2, 70));
  if (!s.batches) return;
  p.batch = between(random, 1, 2);
  p.key_heads = between(random, 1, 2);
  p.heads = p.key_heads * between(random, 1, 4);
}

}  // namespace

void append_size_generators(std::vector<generator>& all) {
  constexpr auto part = generator_part::sizes;
  all.insert(all.end(), {
    {"small", part, "everything that needs no second block of keys; failures that are small from the start", true, 5, small},
    {"edges", part, "lengths at multiples of 8 to 192 and beside them: the last, partial tile; keys of padding that count", true, 5, edges},
    {"square", part, "equal lengths: the diagonal of the mask through every tile", true, 3, square},
    {"one-key", part, "one key: the weight is 1 and O is V, whatever the score", true, 1, one_key},
    {"empty-rows", part, "more queries than keys, causal: rows without a visible key, or masks aligned to the wrong corner", true, 1, empty_rows},
    {"long-row", part, "several blocks of keys: rescaling, carried sums, the order of blocks", true, 4, long_row},
    {"grouped", part, "batch elements, heads, key heads that several query heads share: wrong strides and offsets", true, 2, grouped},
  });
}

}  // namespace stickybit::detail
