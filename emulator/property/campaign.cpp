#include "stickybit/property/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "campaign_state.hpp"
#include "property_parts.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit {
namespace {

using namespace detail;

bool is_named(attention_schedule const& s) {
  attention_schedule const& n = attention_schedule_named(s.name);
  return s.unit == n.unit && s.rules == n.rules && s.backward == n.backward && s.smooths_keys == n.smooths_keys && s.forward_in_fp32 == n.forward_in_fp32 && s.backward_in_fp32 == n.backward_in_fp32 &&
         s.forward_tiles.data() == n.forward_tiles.data() && s.causal_mask == n.causal_mask;
}

holding expected_of(attention_schedule const& schedule, attention_property const& property) {
  if (property.name == "equals-schedule") return holding::exactly;
  const holding known = known_holding(schedule.name, property.name).value_or(holding::untested);
  return known == holding::exactly && !is_named(schedule) ? holding::approximately : known;
}

std::vector<attention_property const*> chosen(campaign_options const& options) {
  std::vector<attention_property const*> all;
  if (options.properties.empty())
    for (attention_property const& p : all_properties()) all.push_back(&p);
  for (std::string const& name : options.properties) all.push_back(&property_named(name));
  return all;
}

/// Mean over the finite elements of (O − reference) in BF16 ulp at the root mean square of the reference's column (same batch element and head).
/// Nothing where an element is not finite or a column is 0.
std::optional<double> mean_error(attention_problem const& p, std::vector<bf16_code> const& o, auto reference) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t c = 0; c < p.head_dim; ++c) {
        double squares = 0, errors = 0;
        for (std::int64_t i = 0; i < p.queries; ++i) {
          const double x = reference(b, h, i, c);
          squares += x * x;
          errors += to_double(o[query_at(p, b, h, i, c)]) - x;
        }
        if (!std::isfinite(squares) || !std::isfinite(errors)) return std::nullopt;
        const double root = std::sqrt(squares / double(p.queries));
        if (root < 0x1p-100) continue;
        sum += errors / ulp_at<format::bf16>(root);
        count += p.queries;
      }
  return count == 0 ? std::optional<double>() : sum / double(count);
}

/// Equality alone, with what the bias tests want of the same two runs.
void run_equality(kernel_under_test& kernel, attention_schedule const& schedule, property_case const& c, attention_property const& property, case_outcome& out) {
  attention_problem const& p = c.problem;
  const forward_result forward = attention_forward(schedule, p);
  const bool gradients = !p.d_o.empty() && kernel.has_backward() && !schedule.backward_tiles.empty();
  kernel_results expected{forward.o, forward.lse, {}, {}, {}};
  if (gradients) {
    backward_result g = attention_backward(schedule, p, forward);
    expected.dq = std::move(g.dq);
    expected.dk = std::move(g.dk);
    expected.dv = std::move(g.dv);
  }
  const kernel_results found = kernel.run(p, gradients);
  out.supported = true;
  out.outcomes.emplace_back(&property, compare_results(found, expected, schedule.name));
  if (!out.outcomes.back().second.exact)
    out.error_against_schedule = mean_error(p, found.o, [&](auto b, auto h, auto i, auto col) { return to_double(expected.o[query_at(p, b, h, i, col)]); });
  else out.error_against_schedule = 0;
  if (c.seed % 10 != 0 || !(p.softmax_scale > 0)) return;
  for (auto const* codes : {&p.q, &p.k, &p.v})
    for (bf16_code x : *codes)
      if (!x.is_finite()) return;
  std::vector<exact_rows> exact;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) exact.push_back(exact_head(p, mask_of(schedule, p), b, h).evaluate());
  out.error_against_exact = mean_error(p, found.o, [&](auto b, auto h, auto i, auto col) { return exact[std::size_t(b * p.heads + h)].o[std::size_t(i * p.head_dim + col)].hi; });
}

property_count& count_of(campaign_result& r, std::string_view property, attention_schedule const& schedule) {
  const auto found = std::find_if(r.properties.begin(), r.properties.end(), [&](property_count const& x) { return x.name == property; });
  if (found != r.properties.end()) return *found;
  r.properties.push_back({std::string(property), 0, 0, 0, 0, expected_of(schedule, property_named(property))});
  return r.properties.back();
}

/// A failure in a tensor that changes from run to run says nothing of the property, but that the kernel is not deterministic.
std::optional<std::string> blamed_on_runs(kernel_under_test& kernel, attention_property const& property, property_outcome const& outcome, attention_problem problem) {
  if (property.name == "determinism") return std::nullopt;
  if (!property.gradients && property.name != "equals-schedule") problem.d_o.clear();
  const variation v = find_variation(kernel, problem, !problem.d_o.empty() && kernel.has_backward());
  return v.has(outcome.tensor) ? std::optional(v.what) : std::nullopt;
}

}  // namespace

bool campaign_result::passed() const noexcept {
  std::int64_t tested = 0;
  for (property_count const& p : properties) tested += p.cases;
  return failures.empty() && !(approximate ? against_exact : against_schedule).biased() && tested != 0;
}

bool is_failure(attention_schedule const& schedule, attention_property const& property, property_outcome const& outcome, bool approximate) noexcept {
  if (approximate) {
    if (property.name == "equals-schedule" || property.name == "masked-nan" || property.name == "row-independence") return false;
    return property.tolerance == "none" ? !outcome.exact : outcome.deviation > 1;
  }
  switch (expected_of(schedule, property)) {
    case holding::exactly: return !outcome.exact;
    case holding::approximately: return outcome.deviation > 1;
    default: return false;
  }
}

case_outcome run_case(kernel_under_test& kernel, attention_schedule const& schedule, property_case const& c, campaign_options const& options) {
  case_outcome out;
  const std::vector<attention_property const*> all = chosen(options);
  std::vector<attention_property const*> others;
  for (attention_property const* p : all)
    if (p->name != "equals-schedule" && (!p->gradients || (!c.problem.d_o.empty() && kernel.has_backward()))) others.push_back(p);
  if (others.size() != all.size() && all[0]->name == "equals-schedule") try {
      run_equality(kernel, schedule, c, *all[0], out);
    } catch (unsupported_call const&) {
    }
  if (others.empty()) return out;
  attention_property const& turn = *others[std::size_t(c.seed % others.size())];
  attention_problem p = c.problem;
  if (!turn.gradients) p.d_o.clear();
  if (const std::optional<property_outcome> outcome = judge(turn, kernel, schedule, p, c.seed)) {
    out.supported = true;
    out.outcomes.emplace_back(&turn, *outcome);
  }
  return out;
}

campaign_result run_campaign(kernel_under_test& kernel, attention_schedule const& schedule, campaign_options const& options) {
  campaign_result r;
  r.kernel = kernel.name();
  r.schedule = schedule.name;
  r.first_seed = r.next_seed = options.first_seed;
  r.against_schedule = sequential_mean_test(0, options.bias_error_rate);
  r.against_exact = sequential_mean_test(options.approximate ? 0.1 : 0.02, options.bias_error_rate);
  r.approximate = options.approximate;
  for (attention_property const* p : chosen(options)) r.properties.push_back({std::string(p->name), 0, 0, 0, 0, expected_of(schedule, *p)});
  const std::string space = space_text(options);
  if (!options.checkpoint.empty() && std::filesystem::exists(options.checkpoint)) restore(r, options.checkpoint, space);
  const std::uint64_t end = options.first_seed + std::uint64_t(options.cases);
  std::int64_t since = 0;
  const auto keep = [&] {
    if (options.checkpoint.empty()) return;
    output_file file(options.checkpoint);
    file.write(state_text(r, space));
    file.commit();
    since = 0;
  };
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return options.seconds > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > options.seconds; };
  while (r.next_seed < end && std::int64_t(r.failures.size()) < options.most_failures && !spent()) {
    const std::uint64_t seed = r.next_seed;
    const property_case c = make_case(options.space, seed);
    try {
      const case_outcome outcome = run_case(kernel, schedule, c, options);
      r.unsupported += !outcome.supported;
      for (auto const& [property, found] : outcome.outcomes) {
        property_count& count = count_of(r, property->name, schedule);
        ++count.cases;
        count.inexact += !found.exact;
        count.largest = std::max(count.largest, found.exact ? 0 : found.deviation);
        if (!is_failure(schedule, *property, found, options.approximate)) continue;
        if (std::optional<std::string> varies = blamed_on_runs(kernel, *property, found, c.problem)) {
          ++count_of(r, "determinism", schedule).failures;
          r.failures.push_back({seed, c.recipe, "determinism", fmt::format("{} (seen as a failure of {})", *varies, property->name), false});
          continue;
        }
        ++count.failures;
        r.failures.push_back({seed, c.recipe, count.name, found.what, false});
      }
      if (outcome.error_against_schedule) r.against_schedule.add(*outcome.error_against_schedule);
      if (outcome.error_against_exact) r.against_exact.add(*outcome.error_against_exact);
    } catch (kernel_failure const& failure) {
      r.failures.push_back({seed, c.recipe, std::string(name_of(failure.kind)), failure.what(), true});
    }
    r.next_seed = seed + 1;
    if (options.report) options.report(std::int64_t(r.next_seed - options.first_seed), options.cases);
    if (++since >= options.checkpoint_every) keep();
  }
  keep();
  return r;
}

}  // namespace stickybit
