#include "attention_case.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "../record/random_codes.hpp"

namespace stickybit::gpu {
namespace {

constexpr std::array<std::string_view, 14> regimes{"random", "ties",     "tied-maximum", "late",  "hot",      "one-hot", "large",
                                                   "negative", "overflow", "infinite",     "nan",   "subnormal", "faint",   "flat"};
constexpr std::array<std::string_view, 13> forward_fixes{"none", "none", "none", "subtract-first", "beta", "beta:beta=7,tol=0", "beta:beta=1.25,tol=0.01", "beta:preset=v2", "beta:preset=v4",
                                                         "two-row-sums", "delta-hilo", "subtract-first+two-row-sums", "subtract-first+beta+two-row-sums+delta-hilo"};
constexpr std::array<std::string_view, 3> backward_fixes{"none", "none", "delta-hilo"};
constexpr std::array<std::string_view, 4> layout_names{"rows_outside", "heads_outside", "packed", "gaps"};

/// A length: tiny, at or beside a multiple of a tile, or any.
std::int64_t draw_length(random_codes& r) {
  switch (r.between(0, 4)) {
    case 0: return r.between(1, 20);
    case 1: return std::int64_t{16} * r.between(1, 40);
    case 2: return std::max(1, 64 * r.between(1, 12) + r.between(-1, 1));
    case 3: return r.between(1, 400);
    default: return r.between(1, 1100);
  }
}

double draw_scale(random_codes& r, std::int64_t head_dim) {
  const double usual = double(static_cast<float>(1 / std::sqrt(double(head_dim))));
  switch (r.between(0, 7)) {
    case 0: return double(static_cast<float>(usual * (0.25 + double(r.between(0, 1 << 20)) * 0x1p-18)));
    case 1: return std::ldexp(1.0, r.between(-20, 3));
    case 2: return double(static_cast<float>((1 + double(r.between(0, 1 << 20)) * 0x1p-20) * std::ldexp(1.0, r.between(-12, 2))));
    default: return usual;
  }
}

/// About normal, sums of four 16-bit uniforms: exact in double.
double bell(std::uint64_t bits) {
  const double sum = double(bits & 0xffff) + double(bits >> 16 & 0xffff) + double(bits >> 32 & 0xffff) + double(bits >> 48);
  return (sum - 2 * 65535.0) * (1.7320508 / 65536);
}

bf16_code rounded(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  if ((bits & 0x7fffffffU) >= 0x7f800000U) return bf16_code::from_bits(std::uint16_t(bits >> 16));
  return bf16_code::from_bits(std::uint16_t((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16));
}

/// The numbers of a case before they are cast.
struct numbers {
  std::vector<double> q, k, v, d_o;
};

class maker {
 public:
  explicit maker(attention_case const& c) : c_(c) {}

  attention_problem make() {
    attention_problem p{.batch = c_.batch, .heads = c_.heads, .key_heads = c_.key_heads, .queries = c_.queries, .keys = c_.keys, .head_dim = c_.head_dim,
                        .layout = tensor_layout::b_s_h_d, .causal = c_.causal, .softmax_scale = c_.scale, .q = {}, .k = {}, .v = {}, .d_o = {}};
    const std::size_t query_size = std::size_t(c_.batch * c_.queries * c_.heads * c_.head_dim), key_size = std::size_t(c_.batch * c_.keys * c_.key_heads * c_.head_dim);
    numbers x{normal(query_size, 1), normal(key_size, 2), normal(key_size, 3), c_.backward ? normal(query_size, 4) : std::vector<double>()};
    shape_regime(x);
    p.q = cast(x.q), p.k = cast(x.k), p.v = cast(x.v), p.d_o = cast(x.d_o);
    plant(p);
    return p;
  }

 private:
  std::vector<double> normal(std::size_t size, std::uint64_t stream) const {
    random_codes r(c_.seed, 1000 + stream, c_.index);
    std::vector<double> x(size);
    for (double& one : x) one = bell(r.bits());
    return x;
  }
  static std::vector<bf16_code> cast(std::vector<double> const& x) {
    std::vector<bf16_code> codes(x.size());
    std::ranges::transform(x, codes.begin(), rounded);
    return codes;
  }
  static void multiply(std::vector<double>& x, double by) {
    for (double& one : x) one *= by;
  }
  [[nodiscard]] std::size_t key_at(std::int64_t b, std::int64_t row, std::int64_t head) const { return std::size_t(((b * c_.keys + row) * c_.key_heads + head) * c_.head_dim); }

  /// Adds `by` · (key of a chosen row) to every query; the mean of each key head is `mean`.
  void seek_keys(numbers& x, double own, double by, double mean, std::int64_t step) {
    std::vector<double> const k = x.k;
    random_codes r(c_.seed, 1005, c_.index);
    for (std::int64_t b = 0; b < c_.batch; ++b)
      for (std::int64_t head = 0; head < c_.key_heads; ++head)
        for (std::int64_t j = 0; j < c_.head_dim; ++j) {
          const double shift = mean * bell(r.bits());
          for (std::int64_t row = 0; row < c_.keys; ++row) x.k[key_at(b, row, head) + std::size_t(j)] += shift;
        }
    std::size_t at = 0;
    for (std::int64_t b = 0; b < c_.batch; ++b)
      for (std::int64_t row = 0; row < c_.queries; ++row)
        for (std::int64_t head = 0; head < c_.heads; ++head)
          for (std::int64_t j = 0; j < c_.head_dim; ++j, ++at)
            x.q[at] = own * x.q[at] + by * k[key_at(b, row * step % c_.keys, head / (c_.heads / c_.key_heads)) + std::size_t(j)];
  }

  /// Key `row` becomes key `of`.
  void copy_key(numbers& x, std::int64_t b, std::int64_t row, std::int64_t of) const {
    const std::int64_t width = c_.key_heads * c_.head_dim;
    std::copy_n(x.k.begin() + (b * c_.keys + of) * width, width, x.k.begin() + (b * c_.keys + row) * width);
  }

  void shape_regime(numbers& x) {
    const auto is = [&](std::string_view name) { return c_.regime == name; };
    if (is("ties")) {  // every odd key is the even one before it; V and dO have one sign
      for (std::int64_t b = 0; b < c_.batch; ++b)
        for (std::int64_t row = 1; row < c_.keys; row += 2) copy_key(x, b, row, row - 1);
      multiply(x.q, 3);
      for (double& one : x.v) one = -(std::fabs(one) + 0.5);
      for (double& one : x.d_o) one = -std::fabs(one);
    } else if (is("tied-maximum")) {  // few different keys, so that every row's maximum repeats, within and across blocks
      for (std::int64_t b = 0; b < c_.batch; ++b)
        for (std::int64_t row = 3; row < c_.keys; ++row) copy_key(x, b, row, row % 3);
      multiply(x.q, c_.index % 2 == 0 ? 2 : 0.5);
    } else if (is("late")) {
      seek_keys(x, 0.5, 1.2, 6, 5);
    } else if (is("hot")) {
      seek_keys(x, 0, 2, 20, 7);
    } else if (is("one-hot")) {
      seek_keys(x, 0.1, 8, 0, 11);
    } else if (is("large")) {
      multiply(x.q, 64), multiply(x.k, 64);
    } else if (is("negative")) {
      for (double& one : x.q) one = -2 * std::fabs(one);
      for (double& one : x.k) one = std::fabs(one);
    } else if (is("overflow")) {  // scores near and beyond the largest number
      multiply(x.q, 0x1p60), multiply(x.k, 0x1p62);
      for (std::size_t i = 0; i < x.q.size(); ++i)
        if (i / std::size_t(c_.head_dim) % 3 != 0) x.q[i] *= 0x1p-60;
      for (std::size_t i = 0; i < x.k.size(); ++i)
        if (i / std::size_t(c_.head_dim) % 2 != 0) x.k[i] *= 0x1p-62;
    } else if (is("subnormal")) {  // subnormal P, O, dP
      multiply(x.q, 9), multiply(x.k, 4), multiply(x.v, 0x1p-124), multiply(x.d_o, 0x1p-30);
      for (std::size_t i = 0; i < x.v.size(); i += 3) x.v[i] *= 0x1p-6;
    } else if (is("faint")) {  // subnormal dS, dQ, dK, dV
      multiply(x.d_o, 0x1p-122), multiply(x.v, 0x1p-3);
      for (std::size_t i = 0; i < x.d_o.size(); i += 3) x.d_o[i] *= 0x1p-6;
    } else if (is("flat")) {
      multiply(c_.index % 2 == 0 ? x.q : x.k, 0);
    }
  }

  /// A few infinities or NaN in one or two inputs.
  void plant(attention_problem& p) const {
    if (c_.regime != "infinite" && c_.regime != "nan") return;
    random_codes r(c_.seed, 1006, c_.index);
    const std::array inputs{&p.q, &p.k, &p.v, &p.d_o};
    for (int tensor = r.between(1, 2); tensor > 0; --tensor) {
      std::vector<bf16_code>& x = *inputs[std::size_t(r.between(0, c_.backward ? 3 : 2))];
      for (int count = r.between(1, 4); count > 0; --count) {
        const std::uint16_t code = c_.regime == "nan" ? 0x7fff : 0x7f80;
        x[std::size_t(r.bits() % x.size())] = bf16_code::from_bits(std::uint16_t(code | (r.one_in(2) ? 0x8000 : 0)));
      }
    }
  }

  attention_case const& c_;
};

template <class Number>
Number parse(std::string_view name, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::invalid_argument("--set " + std::string(name) + "=" + std::string(text) + ": expected a number");
  return value;
}

memory_layout layout_named(std::string_view name) {
  const auto found = std::ranges::find(layout_names, name);
  if (found == layout_names.end()) throw std::invalid_argument("layout '" + std::string(name) + "': expected rows_outside, heads_outside, packed or gaps");
  return memory_layout(found - layout_names.begin());
}

}  // namespace

std::string known_regimes() {
  std::string text;
  for (std::string_view name : regimes) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string attention_case::text() const {
  std::array<char, 320> line{};
  std::snprintf(line.data(), line.size(), "batch=%lld;heads=%lld;key_heads=%lld;queries=%lld;keys=%lld;head_dim=%lld;causal=%d;scale=%.9g;regime=%s;layout=%s;fix=%s;deterministic=%d", static_cast<long long>(batch),
                static_cast<long long>(heads), static_cast<long long>(key_heads), static_cast<long long>(queries), static_cast<long long>(keys), static_cast<long long>(head_dim), causal, scale,
                regime.c_str(), std::string(layout_names[std::size_t(layout)]).c_str(), fix.c_str(), deterministic);
  return line.data();
}

void attention_case::set(std::string_view changes) {
  while (!changes.empty()) {
    const std::size_t end = std::min(changes.find(';'), changes.size()), equals = changes.find('=');
    const std::string_view one = changes.substr(0, end);
    changes.remove_prefix(std::min(end + 1, changes.size()));
    if (equals >= end) throw std::invalid_argument("--set '" + std::string(one) + "': expected name=value");
    const std::string_view name = one.substr(0, equals), value = one.substr(equals + 1);
    if (name == "batch") batch = parse<std::int64_t>(name, value);
    else if (name == "heads") heads = parse<std::int64_t>(name, value);
    else if (name == "key_heads") key_heads = parse<std::int64_t>(name, value);
    else if (name == "queries") queries = parse<std::int64_t>(name, value);
    else if (name == "keys") keys = parse<std::int64_t>(name, value);
    else if (name == "head_dim") head_dim = parse<std::int64_t>(name, value);
    else if (name == "causal") causal = parse<int>(name, value) != 0;
    else if (name == "scale") scale = parse<double>(name, value);
    else if (name == "regime") regime = value;
    else if (name == "layout") layout = layout_named(value);
    else if (name == "fix") fix = value;
    else if (name == "deterministic") deterministic = parse<int>(name, value) != 0;
    else throw std::invalid_argument("--set " + std::string(name) + ": expected one of batch, heads, key_heads, queries, keys, head_dim, causal, scale, regime, layout, fix, deterministic");
  }
  if (std::min({batch, heads, key_heads, queries, keys}) < 1 || heads % key_heads != 0) throw std::invalid_argument("--set: sizes from 1 on, heads a multiple of key_heads");
}

attention_case draw_case(std::uint64_t seed, std::uint64_t index, bool backward) {
  random_codes r(seed, 999, index);
  attention_case c{.seed = seed, .index = index, .backward = backward};
  c.head_dim = r.one_in(2) ? 128 : 64;
  c.causal = r.one_in(2);
  c.queries = draw_length(r);
  c.keys = r.between(0, 2) == 0 ? c.queries : draw_length(r);
  c.batch = r.one_in(3) ? r.between(2, 3) : 1;
  c.key_heads = r.between(1, 3);
  c.heads = c.key_heads * (r.one_in(3) ? r.between(2, 4) : 1);
  // Work that a CPU emulates in a moment.
  const std::int64_t most = backward ? std::int64_t{1} << 20 : std::int64_t{3} << 20;
  while (c.batch * c.heads * c.queries * c.keys > most) {
    if (c.batch > 1) --c.batch;
    else if (c.key_heads > 1) c.heads -= c.heads / c.key_heads, --c.key_heads;
    else if (c.heads > 1) --c.heads;
    else c.queries = std::max<std::int64_t>(1, c.queries / 2);
  }
  c.scale = draw_scale(r, c.head_dim);
  c.regime = r.one_in(4) ? "random" : regimes[std::size_t(r.between(0, int(regimes.size()) - 1))];
  c.layout = memory_layout(r.between(0, 3));
  c.fix = backward ? backward_fixes[std::size_t(r.between(0, int(backward_fixes.size()) - 1))] : forward_fixes[std::size_t(r.between(0, int(forward_fixes.size()) - 1))];
  c.deterministic = !backward || !r.one_in(4);
  return c;
}

attention_problem make_problem(attention_case const& c) {
  if (std::ranges::find(regimes, c.regime) == regimes.end()) throw std::invalid_argument("regime '" + c.regime + "': expected one of " + known_regimes());
  return maker(c).make();
}

}  // namespace stickybit::gpu
