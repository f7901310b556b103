#include "stickybit/property/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "call_file.hpp"
#include "drawing.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/format/text.hpp"

namespace stickybit {
namespace {

using namespace detail;

/// What the failed case is judged by; of a kernel failure whether the kernel fails in the same way.
class judgement {
 public:
  judgement(kernel_under_test& kernel, attention_schedule const& schedule, failed_case const& failed, bool approximate) : kernel_(kernel), schedule_(schedule), failed_(failed), approximate_(approximate) {
    if (!failed.is_kernel_failure) property_ = &property_named(failed.property);
  }

  /// @param prepared  becomes the call as it was judged, `what` what was said of it
  bool fails(attention_problem const& p, attention_problem* prepared = nullptr, std::string* what = nullptr) const {
    try {
      if (failed_.is_kernel_failure) {
        if (prepared != nullptr) *prepared = p;
        (void)kernel_.run(p, !p.d_o.empty() && kernel_.has_backward());
        return false;
      }
      const std::optional<property_outcome> outcome = judge(*property_, kernel_, schedule_, p, failed_.seed, prepared);
      if (!outcome || !is_failure(schedule_, *property_, *outcome, approximate_)) return false;
      if (what != nullptr) *what = outcome->what;
      return true;
    } catch (kernel_failure const& failure) {
      if (what != nullptr) *what = failure.what();
      return failed_.is_kernel_failure && name_of(failure.kind) == failed_.property;
    } catch (std::invalid_argument const&) {
      return false;
    }
  }
  [[nodiscard]] attention_property const* property() const noexcept { return property_; }

 private:
  kernel_under_test& kernel_;
  attention_schedule const& schedule_;
  failed_case const& failed_;
  bool approximate_;
  attention_property const* property_ = nullptr;
};

std::string first_step_of(kernel_under_test& kernel, attention_schedule const& schedule, std::string const& schedule_words, attention_problem const& p) {
  try {
    const bool gradients = !p.d_o.empty() && kernel.has_backward() && !schedule.backward_tiles.empty();
    tensor_file file = call_file(p);
    add_results(file, p, kernel.run(p, gradients), "kernel");
    call_side own{.name = schedule_words, .schedule = schedule, .forward = attention_forward(schedule, p), .results = {}};
    own.results.emplace("o", make_tensor<bf16_code>(dtype::bf16, p.output_shape(), own.forward.o));
    own.results.emplace("lse", make_tensor<f32_code>(dtype::f32, p.row_shape(), own.forward.lse));
    if (gradients) {
      const backward_result g = attention_backward(schedule, p, own.forward);
      own.results.emplace("dq", make_tensor<bf16_code>(dtype::bf16, p.output_shape(), g.dq));
      own.results.emplace("dk", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), g.dk));
      own.results.emplace("dv", make_tensor<bf16_code>(dtype::bf16, p.key_shape(), g.dv));
    }
    const call_side captured = make_side("capture:kernel", file, p, gradients);
    const call_difference d = compare_sides(own, captured);
    if (d.earliest.empty()) return {};
    for (tensor_comparison const& t : d.tensors)
      if (t.tensor == d.earliest) return tell_difference(own, captured, p, t.tensor, place_of(p, t.tensor, t.first));
  } catch (std::exception const& error) {
    return fmt::format("no account of the element: {}\n", error.what());
  }
  return {};
}

/// For XML 1.0: characters that it forbids, and invalid UTF-8 beyond ASCII left as it is in our own words.
std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') || c == 127 ? ' ' : c;
    }
  return safe;
}

void tell_tensor(std::string& text, const char* name, std::vector<bf16_code> const& codes, attention_problem const& p, std::int64_t heads, std::int64_t rows, row_strides strides) {
  for (std::int64_t b = 0; b < p.batch && !codes.empty(); ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < rows; ++i) {
        std::string row;
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          const bf16_code x = codes[std::size_t(strides.offset(b, h, i) + c)];
          if (x != bf16_code::zero()) row += fmt::format(" [{}] {}", c, decimal(x));
        }
        if (!row.empty()) text += fmt::format("  {}[{}{}]{}\n", name, p.batch * heads > 1 ? fmt::format("batch {}, head {}, ", b, h) : std::string(), i, row);
      }
}

}  // namespace

failure_report examine(kernel_under_test& kernel, attention_schedule const& schedule, failed_case const& failed, report_options const& options) {
  const std::string kernel_words = options.kernel_words.empty() ? kernel.name() : options.kernel_words;
  const std::string schedule_words = options.schedule_words.empty() ? std::string(schedule.name) : options.schedule_words;
  failure_report r;
  r.failed = failed;
  const judgement judgement(kernel, schedule, failed, options.approximate);
  attention_problem original = make_case(options.space, failed.recipe, failed.seed).problem;
  if (judgement.property() != nullptr && !judgement.property()->gradients && judgement.property()->name != "equals-schedule" && judgement.property()->name != "determinism") original.d_o.clear();
  const auto fails = [&](attention_problem const& p) { return judgement.fails(p); };
  if (!judgement.fails(original, &r.call, &r.what)) throw std::invalid_argument(fmt::format("seed {}, {}: {} failed and does not fail again: the kernel is not deterministic ({})", failed.seed, failed.recipe, failed.property, failed.what));
  shrink_options shrinking = options.shrinking;
  if (failed.property == name_of(failure_kind::hung)) shrinking.most_runs = std::min<std::int64_t>(shrinking.most_runs, 12);
  const shrunk_call small = shrink(original, fails, shrinking);
  r.runs = small.runs;
  (void)judgement.fails(small.problem, &r.call, &r.what);
  if (failed.property == "equals-schedule") r.first_step = first_step_of(kernel, schedule, schedule_words, r.call);
  if (options.diagnoses && !options.approximate && !failed.is_kernel_failure && failed.property != "determinism") r.cause = diagnose(kernel, schedule, {r.call, original}, options.space, options.diagnosing);
  if (!options.folder.empty()) {
    std::filesystem::create_directories(options.folder);
    r.file = options.folder / fmt::format("{}_seed{}.safetensors", failed.is_kernel_failure ? "kernel-failure" : failed.property, failed.seed);
    tensor_file file = call_file(r.call);
    if (!failed.is_kernel_failure) {
      file.metadata["property"] = failed.property;
      add_results(file, r.call, kernel.run(r.call, !r.call.d_o.empty() && kernel.has_backward()), "kernel");
    }
    file.metadata["seed"] = fmt::format("{}", failed.seed);
    file.metadata["recipe"] = failed.recipe;
    file.save(r.file);
    r.replay = fmt::format("stickybit check '{}' --schedule {}{} --replay '{}'", kernel_words, schedule_words, options.approximate ? " --approximate" : "", r.file.string());
  } else {
    r.replay = fmt::format("stickybit check '{}' --schedule {}{} --seed {} --cases 1", kernel_words, schedule_words, options.approximate ? " --approximate" : "", failed.seed);
  }
  return r;
}

std::string tell_call(attention_problem const& p) {
  std::string text = fmt::format("{} quer{}, {} key{}, d = {}, {} x {} head{}{}{}, softmax scale {}{}\n", p.queries, p.queries == 1 ? "y" : "ies", p.keys, p.keys == 1 ? "" : "s", p.head_dim, p.batch, p.heads,
                                 p.heads == 1 ? "" : "s", p.key_heads == p.heads ? std::string() : fmt::format(" on {} key heads", p.key_heads), p.causal ? ", causal" : "", p.softmax_scale,
                                 p.d_o.empty() ? "" : ", with dO");
  const std::int64_t n = nonzero_elements(p);
  text += fmt::format("numbers that are not zero: {}\n", n);
  if (n > 120) return text;
  tell_tensor(text, "q", p.q, p, p.heads, p.queries, p.query_strides());
  tell_tensor(text, "k", p.k, p, p.key_heads, p.keys, p.key_strides());
  tell_tensor(text, "v", p.v, p, p.key_heads, p.keys, p.key_strides());
  tell_tensor(text, "do", p.d_o, p, p.heads, p.queries, p.query_strides());
  return text;
}

std::string tell(failure_report const& r) {
  std::string text = fmt::format("FAILED {}: seed {}, {}\n  {}\n\nThe smallest call that shows it ({} runs): {}  {}\n", r.failed.property, r.failed.seed, r.failed.recipe, r.failed.what, r.runs, tell_call(r.call), r.what);
  if (!r.first_step.empty()) text += fmt::format("\nWhere it parts from the schedule:\n{}", r.first_step);
  if (!r.cause.cause.empty()) {
    text += fmt::format("\nLikeliest cause: {}", r.cause.cause);
    for (std::string const& other : r.cause.also) text += fmt::format("\n  or: {}", other);
    if (r.cause.known) text += fmt::format("\n  explains every code of {} calls; {} causes tried\n", r.cause.calls, r.cause.causes_tried);
    else text += fmt::format("\n  none of {} near kernels explains every code of {} calls{}\n", r.cause.causes_tried, r.cause.calls, r.cause.nearest.empty() ? std::string() : fmt::format("; the nearest: {}", r.cause.nearest));
  }
  if (!r.file.empty()) text += fmt::format("\nWritten: {}\n", r.file.string());
  return text + fmt::format("Replay:  {}\n", r.replay);
}

std::string to_junit(campaign_result const& r, std::vector<failure_report> const& reports) {
  std::string cases;
  std::int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  const auto text_of = [&](failed_case const& f) {
    for (failure_report const& report : reports)
      if (report.failed.seed == f.seed && report.failed.property == f.property) return tell(report);
    return fmt::format("seed {}, {}: {}\n", f.seed, f.recipe, f.what);
  };
  const auto add = [&](std::string const& name, std::string const& inside) {
    ++tests;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\">{}</testcase>\n", escaped(r.kernel), escaped(name), inside);
  };
  for (property_count const& p : r.properties) {
    std::string inside;
    for (failed_case const& f : r.failures)
      if (!f.is_kernel_failure && f.property == p.name) {
        inside += fmt::format("<failure message=\"{}\">{}</failure>", escaped(f.what), escaped(text_of(f)));
        ++failures;
        break;
      }
    if (inside.empty() && p.cases == 0) {
      inside = "<skipped message=\"no case applied\"/>";
      ++skipped;
    }
    add(p.name, inside);
  }
  std::string crashed;
  for (failed_case const& f : r.failures)
    if (f.is_kernel_failure && crashed.empty()) {
      crashed = fmt::format("<error message=\"{}\">{}</error>", escaped(f.property), escaped(text_of(f)));
      ++errors;
    }
  add("gives results", crashed);
  sequential_mean_test const& bias = r.approximate ? r.against_exact : r.against_schedule;
  failures += bias.biased();
  add("no-signed-bias", bias.biased() ? fmt::format("<failure message=\"mean error {:+.4g} ulp against {}\"/>", bias.mean(), r.approximate ? "exact values" : "the schedule") : std::string());
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"stickybit check {} against {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
                     escaped(r.kernel), escaped(r.schedule), tests, failures, errors, skipped, cases);
}

std::optional<property_outcome> replay(kernel_under_test& kernel, attention_schedule const& schedule, tensor_file const& file) {
  const auto named = file.metadata.find("property"), seeded = file.metadata.find("seed");
  attention_property const& property = property_named(named == file.metadata.end() ? "equals-schedule" : named->second);
  std::uint64_t seed = 0;
  if (seeded != file.metadata.end())
    for (char c : seeded->second)
      if (c >= '0' && c <= '9') seed = seed * 10 + std::uint64_t(c - '0');
  const attention_problem p = in_standard_layout(read_problem(file));
  return judge_prepared(property, kernel, schedule, p, seed);
}

}  // namespace stickybit
