#include "stickybit/fix/fix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

namespace stickybit {
namespace {

struct asked_fix {
  std::string name;
  std::map<std::string, std::string, std::less<>> parameters;
};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == at) parts.emplace_back();
    else parts.back() += c;
  return parts;
}

std::string known_names() {
  std::string names;
  for (fix_description const& f : all_fixes()) names += fmt::format("{}{}", names.empty() ? "" : ", ", f.name);
  return names;
}

asked_fix parse_one(std::string const& text) {
  const std::size_t colon = text.find(':');
  asked_fix fix{text.substr(0, colon), {}};
  if (std::ranges::none_of(all_fixes(), [&](fix_description const& f) { return f.name == fix.name; }))
    throw invalid_fix(fmt::format("unknown fix '{}': expected one of {}, joined with '+'", fix.name, known_names()));
  if (colon == text.npos) return fix;
  for (std::string const& part : split(std::string_view(text).substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == part.npos) throw invalid_fix(fmt::format("fix {}: parameter '{}': expected name=value", fix.name, part));
    if (!fix.parameters.emplace(part.substr(0, equals), part.substr(equals + 1)).second) throw invalid_fix(fmt::format("fix {}: parameter '{}' is given twice", fix.name, part.substr(0, equals)));
  }
  return fix;
}

/// Takes the parameters one by one; what is left at the end is an error.
class parameters_of {
 public:
  explicit parameters_of(asked_fix const& fix) : fix_(fix), left_(fix.parameters) {}
  ~parameters_of() = default;

  std::string_view choice(std::string_view name, std::vector<std::string_view> const& values) {
    const auto found = left_.find(name);
    if (found == left_.end()) return values.front();
    const auto value = std::ranges::find(values, found->second);
    if (value == values.end()) throw invalid_fix(fmt::format("fix {}: {}={}: expected {}", fix_.name, name, found->second, fmt::join(values, " or ")));
    left_.erase(found);
    return *value;
  }

  float number(std::string_view name, float otherwise, float lowest, float highest) {
    const auto found = left_.find(name);
    if (found == left_.end()) return otherwise;
    float value = 0;
    std::string const& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= lowest && value <= highest))
      throw invalid_fix(fmt::format("fix {}: {}={}: expected a number from {} to {}", fix_.name, name, text, lowest, highest));
    left_.erase(found);
    return value;
  }

  [[nodiscard]] bool has(std::string_view name) const { return left_.find(name) != left_.end(); }

  void finish() const {
    if (left_.empty()) return;
    const auto described = std::ranges::find(all_fixes(), fix_.name, &fix_description::name);
    throw invalid_fix(fmt::format("fix {}: unknown parameter '{}': expected {}", fix_.name, left_.begin()->first, described->parameters.empty() ? "none" : described->parameters));
  }

 private:
  asked_fix const& fix_;
  std::map<std::string, std::string, std::less<>> left_;
};

/// What a library takes for small calls is fixed like the kernel itself.
template <class Change>
void change_rules(attention_schedule& s, Change change) {
  change(s.rules);
  change(s.small.rules);
}

void apply_beta(attention_schedule& s, parameters_of& parameters) {
  const std::string_view preset = parameters.choice("preset", {"", "v2", "v4", "repo"});
  if (!preset.empty() && (parameters.has("beta") || parameters.has("tol"))) throw invalid_fix("fix beta: preset fixes beta and tol: expected one or the other");
  tie_parameters tie = preset == "v2" ? tie_parameters{.beta = 7, .tolerance = 0} : tie_parameters{};
  tie.beta = parameters.number("beta", tie.beta, 1.0f, 64.0f);
  tie.tolerance = parameters.number("tol", tie.tolerance, 0.0f, 1.0f);
  change_rules(s, [&](forward_rules& r) {
    r.ties = preset.empty() ? tied_maximum::extended : tied_maximum::published;
    r.tie = tie;
  });
}

void apply_subtract_first(attention_schedule& s) {
  if (has_scaled_maximum(s.rules.exponent))
    throw invalid_fix(fmt::format("fix subtract-first: schedule {} keeps its maximum in scaled units and subtracts it first already", s.name));
  s.rules.exponent = exponent_form::difference_scaled;
  s.rules.unmasked = unmasked_blocks::none;
}

void apply_gproj(attention_schedule& s, parameters_of& parameters) {
  s.backward.mass = parameters.choice("weights", {"p", "uniform"}) == "p" ? row_mass::by_weights : row_mass::uniform;
  s.backward.mass_in_dk = parameters.choice("targets", {"all", "dq"}) == "all";
}

void apply_fp32(attention_schedule& s, parameters_of& parameters) {
  s.forward_in_fp32 = s.backward_in_fp32 = true;
  change_rules(s, [](forward_rules& r) { r.output = output_form::divide_then_round; });
  s.backward.delta_from = delta_source::fp32_output;
  // In one chain of fused multiply-adds, as dP is formed.
  s.backward.delta = parameters.choice("delta", {"o", "pdp"}) == "o" ? delta_sum::serial : delta_sum::weighted_dp;
}

void apply(attention_schedule& s, asked_fix const& fix) {
  parameters_of parameters(fix);
  if (fix.name == "beta") apply_beta(s, parameters);
  else if (fix.name == "subtract-first") apply_subtract_first(s);
  else if (fix.name == "two-row-sums") change_rules(s, [](forward_rules& r) { r.summed = sum_of::both; });
  else if (fix.name == "k-smooth") s.smooths_keys = true;
  else if (fix.name == "gproj") apply_gproj(s, parameters);
  else if (fix.name == "delta-fp32") s.backward.delta_from = delta_source::fp32_output;
  else if (fix.name == "delta-hilo") s.backward.delta_from = delta_source::high_and_low;
  else if (fix.name == "delta-mma") s.backward.delta = delta_sum::tensor_core;
  else if (fix.name == "delta-pdp") s.backward.delta = delta_sum::weighted_dp;
  else if (fix.name == "fp32") apply_fp32(s, parameters);
  else if (fix.name == "fp32-backward") s.backward_in_fp32 = true;
  parameters.finish();
}

/// Pairs that make no sense, and why. A name that ends in '-' stands for all that begin so.
struct clash {
  std::string_view one, other, reason;
};
constexpr std::array clashes{
    clash{"delta-", "delta-", "each forms delta in its own way: expected one of them"},
    clash{"fp32", "fp32-backward", "fp32 covers the backward pass"},
    clash{"fp32", "two-row-sums", "in FP32 the weights are not cast, the two sums are one"},
    clash{"fp32", "delta-", "fp32 has a delta of its own: see its parameter"},
    clash{"fp32-backward", "delta-mma", "an FP32 backward pass has no tensor-core chain"},
};

bool matches(std::string_view pattern, std::string_view name) { return pattern.ends_with('-') ? name.starts_with(pattern) : name == pattern; }

void refuse_clashes(std::vector<asked_fix> const& fixes) {
  for (std::size_t i = 0; i < fixes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::string const &a = fixes[j].name, &b = fixes[i].name;
      if (a == b) throw invalid_fix(fmt::format("fix {} is given twice", a));
      if (a == "none" || b == "none") throw invalid_fix(fmt::format("fix none with {}: expected one or the other", a == "none" ? b : a));
      for (clash const& c : clashes)
        if ((matches(c.one, a) && matches(c.other, b)) || (matches(c.one, b) && matches(c.other, a))) throw invalid_fix(fmt::format("fixes {} and {}: {}", a, b, c.reason));
    }
}

}  // namespace

attention_schedule with_fixes(attention_schedule schedule, std::string_view text) {
  std::vector<asked_fix> fixes;
  for (std::string const& part : split(text, '+')) fixes.push_back(parse_one(part));
  refuse_clashes(fixes);
  for (asked_fix const& fix : fixes) {
    if (fix.name != "none" && schedule.kind != schedule_kind::online)
      throw invalid_fix(fmt::format("fix {}: schedule {} is not a kernel that goes block by block: expected one that does", fix.name, schedule.name));
    apply(schedule, fix);
  }
  return schedule;
}

}  // namespace stickybit
