#include "stickybit/property/shrink.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "drawing.hpp"

namespace stickybit {
namespace {

using namespace detail;

class shrinker {
 public:
  shrinker(attention_problem problem, std::function<bool(attention_problem const&)> const& fails, shrink_options const& options)
      : best_(std::move(problem)), fails_(fails), options_(options), until_(std::chrono::steady_clock::now() + std::chrono::milliseconds(std::int64_t(options.seconds * 1000))) {}

  shrunk_call run() {
    bool finished = false;
    for (int round = 0; round < 20 && !spent() && !finished; ++round) {
      const bool smaller = [&] {
        bool any = false;
        any |= fewer_dimensions();
        any |= remove_rows();
        any |= remove_keys();
        any |= simpler_call();
        any |= clear_columns();
        any |= clear_elements();
        any |= plain_elements();
        return any;
      }();
      finished = !smaller && !spent();
    }
    return {best_, runs_, finished};
  }

 private:
  [[nodiscard]] bool spent() const { return runs_ >= options_.most_runs || std::chrono::steady_clock::now() > until_; }

  bool take(attention_problem candidate) {
    if (spent()) return false;
    ++runs_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  /// The call of some query rows, keys, batch elements, heads and columns of the best one.
  static attention_problem part(attention_problem const& p, std::vector<std::int64_t> const& batches, std::vector<std::int64_t> const& heads, std::vector<std::int64_t> const& key_heads,
                                std::vector<std::int64_t> const& rows, std::vector<std::int64_t> const& keys, std::int64_t d) {
    attention_problem to = p;
    to.batch = std::int64_t(batches.size());
    to.heads = std::int64_t(heads.size());
    to.key_heads = std::int64_t(key_heads.size());
    to.queries = std::int64_t(rows.size());
    to.keys = std::int64_t(keys.size());
    to.head_dim = d;
    size_tensors(to, !p.d_o.empty());
    each_query(to, [&](auto b, auto h, auto i) {
      const auto from = std::int64_t(query_at(p, batches[std::size_t(b)], heads[std::size_t(h)], rows[std::size_t(i)], 0)), at = std::int64_t(query_at(to, b, h, i, 0));
      std::copy_n(p.q.begin() + from, d, to.q.begin() + at);
      if (!p.d_o.empty()) std::copy_n(p.d_o.begin() + from, d, to.d_o.begin() + at);
    });
    each_key(to, [&](auto b, auto h, auto j) {
      const auto from = std::int64_t(key_at(p, batches[std::size_t(b)], key_heads[std::size_t(h)], keys[std::size_t(j)], 0)), at = std::int64_t(key_at(to, b, h, j, 0));
      std::copy_n(p.k.begin() + from, d, to.k.begin() + at);
      std::copy_n(p.v.begin() + from, d, to.v.begin() + at);
    });
    return to;
  }
  static std::vector<std::int64_t> all(std::int64_t n) {
    std::vector<std::int64_t> x(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) x[std::size_t(i)] = i;
    return x;
  }

  bool fewer_dimensions() {
    bool any = false;
    attention_problem const& p = best_;
    for (std::int64_t b = 0; p.batch > 1 && b < p.batch; ++b) any |= take(part(p, {b}, all(p.heads), all(p.key_heads), all(p.queries), all(p.keys), p.head_dim));
    for (std::int64_t h = 0; p.heads > 1 && h < p.heads; ++h) any |= take(part(p, all(p.batch), {h}, {p.key_head_of(h)}, all(p.queries), all(p.keys), p.head_dim));
    for (std::int64_t h = 0; p.key_heads > 1 && h < p.key_heads; ++h) {
      const std::int64_t group = p.heads / p.key_heads;
      std::vector<std::int64_t> heads;
      for (std::int64_t i = 0; i < group; ++i) heads.push_back(h * group + i);
      any |= take(part(p, all(p.batch), heads, {h}, all(p.queries), all(p.keys), p.head_dim));
    }
    for (std::int64_t d : options_.head_dims)
      if (d < best_.head_dim) any |= take(part(best_, all(best_.batch), all(best_.heads), all(best_.key_heads), all(best_.queries), all(best_.keys), d));
    if (!best_.d_o.empty()) {
      attention_problem without = best_;
      without.d_o.clear();
      any |= take(std::move(without));
    }
    return any;
  }

  /// Chunks of a range are taken away, halves first.
  template <class Without>
  bool remove(std::int64_t count, Without without) {
    bool any = false;
    for (std::int64_t chunk = std::max<std::int64_t>(count / 2, 1); chunk >= 1; chunk /= 2)
      for (std::int64_t first = 0; first < count && count > 1;) {
        if (spent()) return any;
        const std::int64_t n = std::min(chunk, count - first);
        if (n < count && take(without(first, n))) {
          count -= n;
          any = true;
        } else {
          first += chunk;
        }
      }
    return any;
  }
  static std::vector<std::int64_t> all_but(std::int64_t count, std::int64_t first, std::int64_t n) {
    std::vector<std::int64_t> x;
    for (std::int64_t i = 0; i < count; ++i)
      if (i < first || i >= first + n) x.push_back(i);
    return x;
  }
  bool remove_rows() {
    return remove(best_.queries, [&](auto first, auto n) { return part(best_, all(best_.batch), all(best_.heads), all(best_.key_heads), all_but(best_.queries, first, n), all(best_.keys), best_.head_dim); });
  }
  bool remove_keys() {
    return remove(best_.keys, [&](auto first, auto n) { return part(best_, all(best_.batch), all(best_.heads), all(best_.key_heads), all(best_.queries), all_but(best_.keys, first, n), best_.head_dim); });
  }

  bool simpler_call() {
    bool any = false;
    if (best_.causal) {
      attention_problem p = best_;
      p.causal = false;
      any |= take(std::move(p));
    }
    for (double scale : {1.0, 0.125}) {
      if (best_.softmax_scale == scale) break;
      attention_problem p = best_;
      p.softmax_scale = scale;
      if (take(std::move(p))) return true;
    }
    return any;
  }

  /// Columns of q and k together, or of v and dO.
  bool clear_columns() {
    bool any = false;
    for (bool scores : {true, false})
      for (std::int64_t chunk = best_.head_dim / 2; chunk >= 1; chunk /= 2)
        for (std::int64_t first = 0; first < best_.head_dim && !spent(); first += chunk) {
          attention_problem p = best_;
          bool changed = false;
          for (auto* codes : scores ? std::array{&p.q, &p.k} : std::array{&p.v, &p.d_o})
            for (std::size_t i = 0; i < codes->size(); ++i) {
              const std::int64_t c = std::int64_t(i) % p.head_dim;
              if (c < first || c >= first + chunk || (*codes)[i] == bf16_code::zero()) continue;
              (*codes)[i] = bf16_code::zero();
              changed = true;
            }
          any |= changed && take(std::move(p));
        }
    return any;
  }

  static std::array<std::vector<bf16_code> attention_problem::*, 4> tensors() { return {&attention_problem::q, &attention_problem::k, &attention_problem::v, &attention_problem::d_o}; }

  bool clear_elements() {
    bool any = false;
    for (auto member : tensors()) {
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < (best_.*member).size(); ++i)
        if ((best_.*member)[i] != bf16_code::zero()) places.push_back(i);
      for (std::size_t chunk = std::max<std::size_t>(places.size() / 2, 1); !places.empty() && chunk >= 1; chunk /= 2) {
        for (std::size_t first = 0; first < places.size() && !spent(); first += chunk) {
          attention_problem p = best_;
          for (std::size_t i = first; i < std::min(first + chunk, places.size()); ++i) (p.*member)[places[i]] = bf16_code::zero();
          if ((p.*member) != (best_.*member)) any |= take(std::move(p));
        }
        if (places.size() > 256 && chunk < places.size() / 64) break;
      }
    }
    return any;
  }

  /// 1, a power of two, or fewer bits.
  bool plain_elements() {
    bool any = false;
    for (auto member : tensors()) {
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < (best_.*member).size(); ++i)
        if (!(best_.*member)[i].is_zero() && (best_.*member)[i].is_finite()) places.push_back(i);
      if (places.empty()) continue;
      const auto with = [&](std::size_t i, std::uint16_t bits) {
        attention_problem p = best_;
        (p.*member)[i] = bf16_code::from_bits(bits);
        return p;
      };
      attention_problem ones = best_;
      for (std::size_t i : places) (ones.*member)[i] = bf16_of(1);
      if ((ones.*member) != (best_.*member) && take(std::move(ones))) {
        any = true;
        continue;
      }
      for (unsigned mask : {0xff80u, 0xffe0u, 0xfff8u}) {  // every number cut alike
        attention_problem cut = best_;
        for (std::size_t i : places) (cut.*member)[i] = bf16_code::from_bits(std::uint16_t((cut.*member)[i].to_bits() & mask));
        if ((cut.*member) == (best_.*member)) break;
        if (take(std::move(cut))) {
          any = true;
          break;
        }
      }
      if (places.size() > 64) continue;
      for (std::size_t i : places)
        for (std::uint16_t bits : {std::uint16_t(0x3f80), std::uint16_t((best_.*member)[i].to_bits() & 0xff80), std::uint16_t((best_.*member)[i].to_bits() & 0xffe0), std::uint16_t((best_.*member)[i].to_bits() & 0xfff8),
                                   std::uint16_t((best_.*member)[i].to_bits() & 0x7fff)}) {
          if (bits == (best_.*member)[i].to_bits()) break;
          if (spent()) return any;
          if (take(with(i, bits))) {
            any = true;
            break;
          }
        }
    }
    return any;
  }

  attention_problem best_;
  std::function<bool(attention_problem const&)> const& fails_;
  shrink_options const& options_;
  std::chrono::steady_clock::time_point until_;
  std::int64_t runs_ = 0;
};

}  // namespace

shrunk_call shrink(attention_problem problem, std::function<bool(attention_problem const&)> const& fails, shrink_options const& options) {
  return shrinker(std::move(problem), fails, options).run();
}

std::int64_t nonzero_elements(attention_problem const& p) noexcept {
  std::int64_t n = 0;
  for (auto const* codes : {&p.q, &p.k, &p.v, &p.d_o}) n += std::count_if(codes->begin(), codes->end(), [](bf16_code c) { return !c.is_zero(); });
  return n;
}

}  // namespace stickybit
