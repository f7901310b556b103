#include "selected_call.hpp"

#include <algorithm>
#include <atomic>

#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/exact_head.hpp"

namespace stickybit::detail {
namespace {

/// Chosen rows of chosen heads, one after another.
std::vector<bf16_code> gather(std::vector<bf16_code> const& all, row_strides strides, std::int64_t d, std::int64_t batch, std::int64_t first_head, std::int64_t heads,
                              std::vector<std::int64_t> const& rows) {
  std::vector<bf16_code> chosen;
  for (std::int64_t head = first_head; head < first_head + heads; ++head)
    for (std::int64_t row : rows) {
      const auto begin = all.begin() + strides.offset(batch, head, row);
      chosen.insert(chosen.end(), begin, begin + d);
    }
  return chosen;
}

constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Sums of these over the rows of a call differ where a code does (but for chance), in whatever order and blocks the rows come.
/// Before dK's stage P alone counts.  @source the mixing: SplitMix64
std::uint64_t number_of(score_block_row const& row, gradient_stage stage) {
  std::uint64_t sum = 0;
  for (std::size_t j = 0; j < row.p.size(); ++j) {
    const std::uint64_t place = mixed((std::uint64_t(row.head) << 48) + (std::uint64_t(row.row) << 24) + std::uint64_t(row.first_column) + j);
    sum += mixed(place + row.p[j].to_bits());
    if (stage != gradient_stage::dv) sum += mixed(~place + row.ds[j].to_bits());
  }
  return sum;
}

}  // namespace

selected_call::selected_call(attention_problem const& p, forward_result const& forward, captured_gradients const& captured, head_group group,
                             std::vector<std::int64_t> rows, std::vector<std::int64_t> keys)
    : whole_(p), group_(group), rows_(std::move(rows)), keys_(std::move(keys)) {
  const std::int64_t shared = p.heads / p.key_heads, first = group.key_head * shared;
  problem_.heads = shared;
  problem_.queries = std::ssize(rows_);
  problem_.keys = std::ssize(keys_);
  problem_.head_dim = p.head_dim;
  problem_.layout = tensor_layout::b_h_s_d;
  problem_.causal = p.causal;
  problem_.softmax_scale = p.softmax_scale;
  problem_.call_heads = p.batch * (p.call_heads == 0 ? p.heads : p.call_heads);
  problem_.sm_count = p.sm_count;
  const auto of_rows = [&](std::vector<bf16_code> const& m) { return gather(m, p.query_strides(), p.head_dim, group.batch, first, shared, rows_); };
  const auto of_keys = [&](std::vector<bf16_code> const& m) { return gather(m, p.key_strides(), p.head_dim, group.batch, group.key_head, 1, keys_); };
  problem_.q = of_rows(p.q);
  problem_.d_o = of_rows(p.d_o);
  problem_.k = of_keys(p.k);
  problem_.v = of_keys(p.v);
  forward_.o = of_rows(forward.o);
  for (std::int64_t head = first; head < first + shared; ++head)
    for (std::int64_t row : rows_) forward_.lse.push_back(forward.lse[std::size_t((group.batch * p.heads + head) * p.queries + row)]);
  captured_ = {of_rows(captured.dq), of_keys(captured.dk), of_keys(captured.dv)};
}

std::vector<std::int64_t> selected_call::visible(attention_schedule const& schedule) const {
  const mask_alignment mask = mask_of(schedule, whole_);
  std::vector<std::int64_t> visible;
  for (std::int64_t row : rows_) {
    const auto last = std::int64_t(visible_keys(mask, std::size_t(row), std::size_t(whole_.queries), std::size_t(whole_.keys)));
    visible.push_back(std::lower_bound(keys_.begin(), keys_.end(), last) - keys_.begin());
  }
  return visible;
}

std::int64_t selected_call::mismatches(attention_schedule const& schedule, gradient_stage stage, std::uint64_t* matrices) const {
  backward_options options;
  options.visible = visible(schedule);
  options.wanted = {stage == gradient_stage::dv, stage == gradient_stage::dk, stage == gradient_stage::dq};
  std::atomic<std::uint64_t> sum = 0;
  if (matrices != nullptr) options.scores = [&](score_block_row const& row) { sum += number_of(row, stage); };
  const backward_result r = attention_backward(schedule, problem_, forward_, options);
  if (matrices != nullptr) *matrices += sum;
  const auto differing = [](std::vector<bf16_code> const& a, std::vector<bf16_code> const& b) {
    std::int64_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += !same(a[i], b[i]);
    return n;
  };
  switch (stage) {
    case gradient_stage::dv: return differing(captured_.dv, r.dv);
    case gradient_stage::dk: return differing(captured_.dk, r.dk);
    case gradient_stage::dq: return differing(captured_.dq, r.dq);
  }
  return 0;
}

}  // namespace stickybit::detail
