#include "stickybit/property/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "near_kernels.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/property/properties.hpp"

namespace stickybit {
namespace {

using namespace detail;

struct evidence {
  attention_problem problem;
  kernel_results found;
  bool gradients, differs;
  bool forward_differs = false;                                     ///< O or lse
  bool dq_differs = false, dk_differs = false, dv_differs = false;
};

template <class Code>
std::int64_t differing(std::vector<Code> const& a, std::vector<Code> const& b) {
  if (a.empty() || b.empty()) return 0;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += a[i] != b[i] && !(a[i].is_nan() && b[i].is_nan());
  return n;
}
std::int64_t differing(kernel_results const& a, kernel_results const& b) { return differing(a.o, b.o) + differing(a.lse, b.lse) + differing(a.dv, b.dv) + differing(a.dk, b.dk) + differing(a.dq, b.dq); }

struct candidate {
  std::string name, family;
  std::function<kernel_results(attention_problem const&, bool)> run;
};

/// Codes that differ; nothing where the candidate does not take the call.
std::optional<std::int64_t> distance(candidate const& c, evidence const& e) {
  try {
    const kernel_results r = c.run(e.problem, e.gradients);
    // A cause that says nothing of the gradients does not explain them where the forward pass is sound. Where it is not, they follow from it.
    const std::int64_t unexplained = e.forward_differs ? 0 : (r.dq.empty() && e.dq_differs) + (r.dk.empty() && e.dk_differs) + (r.dv.empty() && e.dv_differs);
    return differing(e.found, r) + unexplained;
  } catch (std::invalid_argument const&) {
    return std::nullopt;
  }
}

class detective {
 public:
  detective(kernel_under_test& kernel, attention_schedule const& schedule, case_space const& space, diagnosis_options const& options)
      : kernel_(kernel), schedule_(schedule), space_(space), options_(options), near_(schedule) {}

  diagnosis run(std::vector<attention_problem> const& failing) {
    for (attention_problem const& p : failing)
      if (std::int64_t(evidence_.size()) < options_.most_calls / 4) look(p);
    gather();
    std::vector<candidate> fits;
    for (near_kernel const& n : near_.all()) consider({n.name, n.family, n.run}, fits);
    if (fits.empty() && options_.pairs) consider_pairs(fits);
    tell_apart(fits);
    diagnosis d;
    d.calls = std::int64_t(evidence_.size());
    d.causes_tried = tried_;
    if (fits.empty() || d.calls < 8) {
      d.cause = "unknown";
      if (best_ && *best_ < own_distance()) d.nearest = best_name_;
      return d;
    }
    d.known = true;
    d.cause = fits[0].name;
    for (std::size_t i = 1; i < fits.size(); ++i) d.also.push_back(fits[i].name);
    return d;
  }

 private:
  bool look(attention_problem const& p) {
    try {
      const bool gradients = !p.d_o.empty() && kernel_.has_backward() && !schedule_.backward_tiles.empty();
      const kernel_results sound = results_of(schedule_, p, gradients);
      evidence e{p, kernel_.run(p, gradients), gradients, false};
      forget_what_varies(e);
      e.differs = differing(e.found, sound) != 0;
      e.forward_differs = differing(e.found.o, sound.o) + differing(e.found.lse, sound.lse) != 0;
      e.dq_differs = differing(e.found.dq, sound.dq) != 0;
      e.dk_differs = differing(e.found.dk, sound.dk) != 0;
      e.dv_differs = differing(e.found.dv, sound.dv) != 0;
      evidence_.push_back(std::move(e));
      return evidence_.back().differs;
    } catch (unsupported_call const&) {
      return false;
    }
  }

  /// Tensors that change from run to run are no evidence.
  void forget_what_varies(evidence& e) {
    const kernel_results again = kernel_.run(e.problem, e.gradients);
    const auto forget = [](auto& a, auto const& b) {
      if (a != b) a.clear();
    };
    forget(e.found.o, again.o);
    forget(e.found.lse, again.lse);
    forget(e.found.dq, again.dq);
    forget(e.found.dk, again.dk);
    forget(e.found.dv, again.dv);
  }

  /// Further calls: those that fail and those that do not tell as much.
  void gather() {
    std::int64_t failing = std::count_if(evidence_.begin(), evidence_.end(), [](evidence const& e) { return e.differs; });
    for (std::uint64_t seed = 1; seed <= 200 && std::int64_t(evidence_.size()) < options_.most_calls / 2 && (failing < 12 || evidence_.size() < 20); ++seed) failing += look(make_case(space_, seed_base + seed).problem);
    std::stable_sort(evidence_.begin(), evidence_.end(), [](evidence const& a, evidence const& b) { return a.differs != b.differs ? a.differs : a.problem.q.size() * std::size_t(a.problem.keys) < b.problem.q.size() * std::size_t(b.problem.keys); });
  }

  std::int64_t own_distance() {
    if (evidence_.empty()) return 0;
    const candidate own{"", "", [this](attention_problem const& p, bool gradients) { return results_of(schedule_, p, gradients); }};
    return distance(own, evidence_[0]).value_or(0);
  }

  void consider(candidate c, std::vector<candidate>& fits) {
    ++tried_;
    std::int64_t explained = 0;
    for (std::size_t i = 0; i < evidence_.size(); ++i) {
      const std::optional<std::int64_t> n = distance(c, evidence_[i]);
      if (i == 0 && n && (!best_ || *n < *best_)) {
        best_ = *n;
        best_name_ = c.name;
      }
      // What it does not take it must not be the cause of.
      if (n ? *n != 0 : evidence_[i].differs) return;
      explained += n && evidence_[i].differs;
    }
    if (explained != 0) fits.push_back(std::move(c));
  }

  void consider_pairs(std::vector<candidate>& fits) {
    std::vector<near_kernel const*> changes;
    for (near_kernel const& n : near_.all())
      if (n.change) changes.push_back(&n);
    for (std::size_t a = 0; a < changes.size(); ++a)
      for (std::size_t b = a + 1; b < changes.size(); ++b) {
        if (changes[a]->family == changes[b]->family) continue;
        attention_schedule both = schedule_;
        changes[a]->change(both);
        changes[b]->change(both);
        consider({changes[a]->name + " and " + changes[b]->name, changes[a]->family, [both](attention_problem const& p, bool gradients) { return results_of(both, p, gradients); }}, fits);
      }
  }

  /// Asks the kernel about calls in which the causes that are left differ.
  void tell_apart(std::vector<candidate>& fits) {
    for (std::uint64_t seed = 1; fits.size() > 1 && seed <= 150 && std::int64_t(evidence_.size()) < options_.most_calls; ++seed) {
      const attention_problem p = make_case(space_, seed_base + 10'000 + seed).problem;
      const bool gradients = !p.d_o.empty() && kernel_.has_backward() && !schedule_.backward_tiles.empty();
      bool differ = false;
      try {
        const kernel_results first = fits[0].run(p, gradients);
        for (std::size_t i = 1; i < fits.size() && !differ; ++i) differ = differing(first, fits[i].run(p, gradients)) != 0;
      } catch (std::invalid_argument const&) {
        continue;
      }
      if (!differ) continue;
      const std::size_t before = evidence_.size();
      look(p);
      if (evidence_.size() == before) continue;
      std::erase_if(fits, [&](candidate const& c) { return distance(c, evidence_.back()).value_or(1) != 0; });
    }
  }

  static constexpr std::uint64_t seed_base = 0x5eed0000u;
  kernel_under_test& kernel_;
  attention_schedule const& schedule_;
  case_space const& space_;
  diagnosis_options const& options_;
  near_kernels near_;
  std::vector<evidence> evidence_;
  std::int64_t tried_ = 0;
  std::optional<std::int64_t> best_;
  std::string best_name_;
};

}  // namespace

diagnosis diagnose(kernel_under_test& kernel, attention_schedule const& schedule, std::vector<attention_problem> const& failing, case_space const& space, diagnosis_options const& options) {
  return detective(kernel, schedule, space, options).run(failing);
}

std::vector<catalogue_entry> diagnosis_catalogue(attention_schedule const& schedule) {
  std::vector<catalogue_entry> all;
  const near_kernels near(schedule);
  for (near_kernel const& n : near.all()) all.push_back({n.family, n.name});
  return all;
}

}  // namespace stickybit
