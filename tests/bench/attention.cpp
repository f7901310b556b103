// Whole heads of attention: forward, backward, with a fix, exact values, threads, growth with the sequence.
#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/call_forecast.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>

#include "inputs.hpp"
#include "stickybit/bias/gradient_attribution.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/explain/attention_account.hpp"
#include "stickybit/explain/element_page.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "stickybit/figure/page.hpp"
#include "stickybit/fix/fix.hpp"

namespace stickybit::bench {
namespace {

attention_schedule const& fa3() { return attention_schedule_named("fa3"); }

double forward_macs(attention_problem const& p) { return 2.0 * double(p.queries) * double(p.keys) * double(p.head_dim); }
double backward_macs(attention_problem const& p) { return 5.0 * double(p.queries) * double(p.keys) * double(p.head_dim); }

/// @param threads  0: all
std::function<void()> with_threads(int threads, std::function<void()> call) {
  return [threads, call] {
    const int before = omp_get_max_threads();
    if (threads != 0) omp_set_num_threads(threads);
    call();
    omp_set_num_threads(before);
  };
}

std::function<void()> forward(attention_problem const& p, engine how, int threads = 0) {
  return with_threads(threads, [&p, how] { witness = attention_forward(fa3(), p, how).o.back().to_bits(); });
}

std::function<void()> backward(attention_schedule const& schedule, attention_problem const& p, forward_result const& of, engine how, int threads = 0) {
  return with_threads(threads, [&schedule, &p, &of, how] {
    backward_options options;
    options.how = how;
    witness = attention_backward(schedule, p, of, options).dq.back().to_bits();
  });
}

bf16_rows rows_of(attention_problem const& p, std::vector<bf16_code> const& m) { return {m.data(), std::size_t(p.keys), std::size_t(p.head_dim), std::size_t(p.head_dim)}; }

void exact_output(attention_problem const& p) {
  witness = std::uint32_t(exact_attention(rows_of(p, p.q), rows_of(p, p.k), rows_of(p, p.v), p.softmax_scale, mask_alignment::none).evaluate().o.back().hi > 0);
}
void attribute_all(attention_problem const& p, gradient_bias const& of) { witness = std::uint32_t(attribute_gradients(fa3(), p, of).dq.counted); }
void predict_all(attention_problem const& p) { witness = std::uint32_t(forecast_call(fa3(), p).at(0).dk.all.mean > 0); }
account account_of_element(attention_problem const& p, forward_result const& of, std::string_view tensor) { return account_of(fa3(), p, tensor, {0, 0, p.queries / 2, 5}, of); }
void exact_dq(attention_problem const& p) {
  witness = std::uint32_t(exact_gradients(rows_of(p, p.q), rows_of(p, p.k), rows_of(p, p.v), rows_of(p, p.d_o), p.softmax_scale, mask_alignment::none).evaluate().dq.back().hi > 0);
}

}  // namespace

void add_attention(std::vector<comparison>& list) {
  static const attention_problem large = head(1024, 128), small = head(128, 128), tiny = head(1, 64);
  static const attention_schedule corrected = with_fixes(fa3(), "gproj");
  static const forward_result of_large = attention_forward(fa3(), large), of_small = attention_forward(fa3(), small), of_tiny = attention_forward(fa3(), tiny);
  static const gradient_bias bias_of_large = bias_of_gradients(fa3(), large);
  const double f = forward_macs(large), b = backward_macs(large);
  const int threads = omp_get_max_threads();
  const auto one_thread = [](std::function<void()> run, double work) { return rival{"itself on one thread", work, std::move(run)}; };
  list.push_back({fmt::format("attention: fa3 forward, s 1024, d 128, {} threads", threads), "MAC", f, forward(large, engine::fast),
                  {"the definitions, s 128", forward_macs(small), forward(small, engine::definition)}, one_thread(forward(large, engine::fast, 1), f)});
  list.push_back({fmt::format("attention: fa3 backward, s 1024, d 128, {} threads", threads), "MAC", b, backward(fa3(), large, of_large, engine::fast),
                  {"the definitions, s 128", backward_macs(small), backward(fa3(), small, of_small, engine::definition)}, one_thread(backward(fa3(), large, of_large, engine::fast, 1), b)});
  list.push_back({"attention: fa3 forward, s 1, d 64", "call", 1, forward(tiny, engine::fast, 1), {"the definitions", 1, forward(tiny, engine::definition, 1)}, {}});
  list.push_back({"attention: fa3 backward, s 1, d 64", "call", 1, backward(fa3(), tiny, of_tiny, engine::fast, 1), {"the definitions", 1, backward(fa3(), tiny, of_tiny, engine::definition, 1)}, {}});
  list.push_back({"fix: gproj (dQ and dK), s 1024, d 128", "MAC", b, backward(corrected, large, of_large, engine::fast), {}, {"fa3 backward without it", b, backward(fa3(), large, of_large, engine::fast)}});
  list.push_back({"exact: O in double-double, s 1024, d 128", "MAC", f, [] { exact_output(large); }, {}, {"fa3 forward, fast", f, forward(large, engine::fast)}});
  list.push_back({"exact: gradients in double-double, s 1024, d 128", "MAC", b, [] { exact_dq(large); }, {}, {"fa3 backward, fast", b, backward(fa3(), large, of_large, engine::fast)}});
  list.push_back({"predict: O and all gradients, s 1024, d 128", "MAC", f + b, [] { predict_all(large); }, {}, {"exact gradients in double-double", b, [] { exact_dq(large); }}});
  list.push_back({"bias: gradients by rounding point, all six tensors, s 1024, d 128", "MAC", b, [] { attribute_all(large, bias_of_large); }, {},
                  {"fa3 backward, fast", b, backward(fa3(), large, of_large, engine::fast)}});
  // A row of forward is 2·s·d products, of dQ (with what it takes of the preprocessing) 3·s·d.
  const double row = 2.0 * 1024 * 128;
  list.push_back({"explain: account of an element of O, s 1024, d 128", "MAC", row, [] { witness = std::uint32_t(account_of_element(large, {}, "o").size()); },
                  {"the definitions' forward, s 128", forward_macs(small), forward(small, engine::definition)}, {"fa3 forward, fast", f, forward(large, engine::fast)}});
  list.push_back({"explain: account of an element of dQ, s 1024, d 128", "MAC", 1.5 * row, [] { witness = std::uint32_t(account_of_element(large, of_large, "dq").size()); }, {},
                  {"fa3 backward, fast", b, backward(fa3(), large, of_large, engine::fast)}});
  static const account of_o = account_of_element(large, {}, "o");
  list.push_back({"explain: replay of an account of O, s 1024, d 128", "step", double(of_o.size()), [] { witness = replay(of_o).has_value(); }, {},
                  {"making it", double(of_o.size()), [] { witness = std::uint32_t(account_of_element(large, {}, "o").size()); }}});
  list.push_back({"explain: shares of an error of O, s 1024, d 128", "step", double(of_o.size()), [] { witness = std::uint32_t(share_error(of_o).total > 0); }, {},
                  {"its replay", double(of_o.size()), [] { witness = replay(of_o).has_value(); }}});
  list.push_back({"figure: page of an element of O, s 1024, d 128", "page", 1, [] { witness = std::uint32_t(figure::to_html(element_page({fa3(), large, "o", {0, 0, 512, 5}, of_o}, {})).size()); }, {},
                  {"shares of the error", 1, [] { witness = std::uint32_t(share_error(of_o).total > 0); }}});
}

std::vector<growth_point> attention_growth(long long longest) {
  std::vector<growth_point> points;
  for (long long s = 512; s <= longest; s *= 2) {
    const attention_problem p = head(s, 128);
    const forward_result of = attention_forward(fa3(), p);
    const int repeats = s <= 2048 ? 3 : 1;  // the shortest counts
    growth_point point{s, 128, 1e9, 1e9, 0};
    for (int i = 0; i < repeats; ++i) {
      point.forward_seconds = std::min(point.forward_seconds, seconds_of(forward(p, engine::fast)));
      point.backward_seconds = std::min(point.backward_seconds, seconds_of(backward(fa3(), p, of, engine::fast)));
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    point.peak_mebibytes = double(usage.ru_maxrss) / 1024;
    points.push_back(point);
  }
  return points;
}

}  // namespace stickybit::bench
