// A campaign of property tests, beside emulating its calls and nothing else: what cases, judgements and relations cost.
#include <fmt/format.h>

#include "inputs.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/property/campaign.hpp"

namespace stickybit::bench {
namespace {

comparison of_schedule(std::string const& name, bool gradients) {
  constexpr std::int64_t cases = 48;  // each of the 24 properties twice
  attention_schedule const& schedule = attention_schedule_named(name);
  campaign_options options;
  options.cases = cases;
  options.space.gradients = gradients;
  const auto emulate = [&schedule, options, gradients] {
    for (std::uint64_t seed = 1; seed <= cases; ++seed) {
      const attention_problem p = make_case(options.space, seed).problem;
      for (int side = 0; side < 2; ++side) {  // the kernel's and the schedule's
        const forward_result f = attention_forward(schedule, p);
        witness = f.o.empty() ? 0 : f.o[0].to_bits();
        if (gradients) witness = attention_backward(schedule, p, f).dq[0].to_bits();
      }
    }
  };
  return {fmt::format("property tests: {} against itself{}, {} cases", name, gradients ? ", with gradients" : "", cases), "case", double(cases),
          [&schedule, options, name] { witness = std::uint32_t(run_campaign(*emulated_kernel(name), schedule, options).cases()); },
          {"only emulating each call twice", double(cases), emulate},
          {}};
}

}  // namespace

void add_properties(std::vector<comparison>& list) {
  list.push_back(of_schedule("fa3", false));
  list.push_back(of_schedule("fa3", true));
}

}  // namespace stickybit::bench
