#include "stickybit/explain/element_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "element_tables.hpp"
#include "stickybit/explain/figures.hpp"
#include "stickybit/figure/bar_chart.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

using namespace detail;
using figure::page_figure;
using figure::preformatted;
using figure::prose;

constexpr std::size_t steps_in_full = 12;

void add(figure::section& s, std::optional<figure::scene> picture, std::string caption) {
  if (picture) s.contents.emplace_back(page_figure{std::move(*picture), std::move(caption)});
}

void add(figure::page& p, figure::section s) {
  if (!s.contents.empty()) p.sections.push_back(std::move(s));
}

/// On one line, as a page sets its own.
std::string unwrapped(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

figure::section result_section(account const& a, std::string_view words) {
  figure::section s{"The last rounding", {}};
  const std::size_t last = a.size() - 1;
  add(s, rounding_picture(a, last), "The representable numbers about the value that the last step had to round, where that value lies, and which of them it became.");
  if (!words.empty()) s.contents.insert(s.contents.begin(), prose{std::string(words)});
  if (a[last].op != operation::input) s.contents.emplace_back(preformatted{"The last step in full", tell_step(a, last)});
  return s;
}

figure::section error_section(account const& a, error_shares const& shares, std::string_view tensor) {
  figure::section s{"Where the error comes from", {}};
  add(s, shares_picture(group_shares(a, shares), shares, tensor.empty() ? name_of_group : rounding_of, tensor),
      "Each rounding's own error, carried to the result by the derivative of everything after it, summed by kind. Parts of both signs cancel.");
  add(s, error_picture(a, shares), "The same parts in the order in which the steps are made: how much of the result's error is decided after each. The largest steps are named.");
  return s;
}

figure::section block_section(account const& a, error_shares const& shares) {
  figure::section s{"Inside the tensor core", {}};
  if (const std::optional<std::size_t> step = block_to_show(a, shares)) {
    const auto blocks = std::size_t(std::count_if(a.steps().begin(), a.steps().end(), [](account_step const& x) { return x.op == operation::block_fma; }));
    add(s, block_picture(a, *step),
        fmt::format("{}. Every product and the sum so far are aligned at the largest exponent; what lies right of the line is lost.",
                    blocks == 1 ? std::string("The one tensor-core step of this account") : fmt::format("Of the {} tensor-core steps of this account the one with the largest share of the error", blocks)));
    s.contents.emplace_back(figure::details{"The same step in numbers", {preformatted{"A tensor-core step", tell_step(a, *step)}}});
  }
  return s;
}

figure::section step_section(account const& a, error_shares const& shares) {
  figure::section s{"The steps that weigh most", {}};
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto weight = [&](std::size_t i) { return !shares.finite ? 0 : std::fabs(shares.steps[i]); };
  std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) { return weight(x) > weight(y); });
  std::erase_if(order, [&](std::size_t i) { return a[i].op == operation::input || (weight(i) == 0 && shares.finite); });
  s.contents.emplace_back(prose{fmt::format("Of {} steps those with the largest shares of the error, each bit by bit.", a.size())});
  for (std::size_t n = 0; n < std::min(steps_in_full, order.size()); ++n) {
    const std::string share = !shares.finite ? std::string() : fmt::format(", {} ulp of the result", signed_ulps(shares.steps[order[n]]));
    s.contents.emplace_back(figure::details{label_of(a, order[n]) + share, {preformatted{label_of(a, order[n]), tell_step(a, order[n])}}});
  }
  if (order.empty()) s.contents.clear();
  return s;
}

figure::section row_section(told_element const& e, error_shares const& shares) {
  figure::section s{is_forward_tensor(e.tensor) ? "The row" : e.tensor == "dk" || e.tensor == "dv" ? "The key" : "The row", {}};
  s.contents.emplace_back(prose{describe_row(e)});
  if (e.tensor == "o")
    add(s, row_picture(e.steps), "The blocks of keys in the order in which the kernel takes them: the running maximum, the factor by which earlier sums are taken down when it grows, the sum of the weights, O's element before its division.");
  if (const std::string tables = tables_of(e, shares); !tables.empty()) s.contents.emplace_back(preformatted{"Blocks, keys and rows", tables});
  return s;
}

figure::section head_section(told_element const& e, element_surroundings const& around) {
  figure::section s{"The whole head", {}};
  if (around.map)
    add(s, map_picture(*around.map, e.tensor, e.at.head), "Rounding errors without bias look like noise. Stripes along a column are a bias that adds up over rows; stripes along a row are one weight's or one sum's.");
  if (around.attribution)
    add(s, attribution_picture(*around.attribution, e.tensor == "o" ? "O" : std::string(e.tensor)), "The mean signed error of the whole tensor by the rounding point that makes it. A part that is far from zero in its own root mean square is systematic.");
  return s;
}

}  // namespace

figure::scene attribution_picture(tensor_attribution const& attribution, std::string const& label) {
  figure::bar_chart_data data{.title = fmt::format("The mean signed error of {} by rounding point", label), .value_name = "mean signed error", .unit = "ulp", .bars = {}};
  double sum = 0;
  for (attributed_point const& p : attribution.points) {
    sum += p.mean_signed_error_ulp;
    if (p.mean_signed_error_ulp != 0 || p.rms_error_ulp != 0) data.bars.push_back({.name = p.name, .value = p.mean_signed_error_ulp, .rms = p.rms_error_ulp});
  }
  data.bars.push_back({.name = "in all", .value = sum, .total = true});
  return figure::bar_chart(data);
}

figure::page account_page(account const& a, std::string const& title, std::string const& footer) {
  const error_shares shares = share_error(a);
  figure::page p{.title = title, .summary = unwrapped(tell(a, detail_level::paragraph)), .sections = {}, .footer = footer};
  add(p, result_section(a, {}));
  add(p, error_section(a, shares, {}));
  add(p, block_section(a, shares));
  add(p, step_section(a, shares));
  return p;
}

figure::page element_page(told_element const& e, element_surroundings const& around) {
  const error_shares shares = share_error(e.steps);
  figure::page p{.title = fmt::format("{} by {}{}", name_of(e), e.schedule.name, e.fix == "none" ? "" : fmt::format(" with {}", e.fix)),
                 .summary = unwrapped(tell(e, detail_level::paragraph)),
                 .sections = {},
                 .footer = around.footer};
  add(p, result_section(e.steps, {}));
  add(p, error_section(e.steps, shares, e.tensor));
  add(p, row_section(e, shares));
  add(p, block_section(e.steps, shares));
  add(p, head_section(e, around));
  add(p, step_section(e.steps, shares));
  return p;
}

}  // namespace stickybit
