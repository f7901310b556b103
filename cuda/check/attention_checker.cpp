#include "attention_checker.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "attention_check.hpp"
#include "attention_golden.hpp"
#include "attention_origin.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::gpu {
namespace {

struct totals {
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>> by_tensor;  // mismatches, compared
  std::size_t cases = 0, wrong = 0, without_dq = 0;
};

class checker {
 public:
  checker(options const& line, std::string const& kernel)
      : line_(line), kernel_(kernel), plain_(checked_schedule(kernel, line.text("schedule", ""), line.text("unit", ""))),
        choice_(kernel == "sm90" ? kernel::kernel_choice::sm90 : kernel::kernel_choice::sm80), backward_(line.has("backward")), seed_(line.number("seed", 1)) {}

  bool run() {
    const bool one = line_.has("case");
    const std::uint64_t first = line_.number("case", 0), count = one ? 1 : line_.number("cases", 200);
    for (std::uint64_t i = first; i < first + count && total_.wrong < line_.number("stop", 20); ++i) check(i, one);
    for (auto const& [name, of] : total_.by_tensor) std::printf("%s: %zu mismatches of %zu\n", name.c_str(), of.first, of.second);
    if (total_.without_dq != 0) std::printf("dq of %zu calls that are not deterministic: not compared\n", total_.without_dq);
    std::printf("%s %s, seed %llu: %zu of %zu calls differ\n", std::string(plain_.name).c_str(), backward_ ? "backward" : "forward", static_cast<unsigned long long>(seed_), total_.wrong, total_.cases);
    std::fflush(stdout);
    return total_.wrong == 0 && total_.cases != 0;
  }

  /// Each changed rule must show in some call.
  bool run_controls() {
    const auto changed = changed_schedules(plain_, backward_);
    std::vector<std::size_t> mismatches(changed.size()), compared(changed.size());
    for (std::uint64_t i = 0; i < 12; ++i) {
      attention_case c = draw_case(seed_ + 1000, i, backward_);
      c.set("heads=2;key_heads=2;batch=1;scale=0.09;fix=none;deterministic=1;regime=" +  // a scale that tells forms of lse apart
            std::string(i % 2 == 0 ? "random" : "late"));
      c.queries = std::max<std::int64_t>(c.queries, 200), c.keys = std::max<std::int64_t>(c.keys, 400);
      const attention_problem problem = make_problem(c);
      const emulated_call emulated = emulate_call(c, problem, plain_);
      const call_results on_gpu = results_of(c, problem, plain_, emulated, 1);
      for (std::size_t j = 0; j < changed.size(); ++j) {
        call_results expected = emulated.results;
        if (backward_) {
          backward_result g = attention_backward(changed[j].schedule, problem, emulated.forward, {.report = {}, .scores = {}, .dq_parts = {}, .dq_order = {}});
          expected.dq = std::move(g.dq), expected.dk = std::move(g.dk), expected.dv = std::move(g.dv);
        } else {
          expected = emulate_call(c, problem, changed[j].schedule).results;
        }
        for (tensor_tally const& t : compare_results(c, on_gpu, expected)) mismatches[j] += t.mismatches, compared[j] += t.compared;
      }
    }
    bool all = true;
    for (std::size_t j = 0; j < changed.size(); ++j) {
      std::printf("control, %s: %zu mismatches of %zu%s\n", changed[j].what.c_str(), mismatches[j], compared[j], mismatches[j] == 0 ? ", but there must be some" : "");
      all = all && mismatches[j] != 0;
    }
    return all;
  }

 private:
  call_results results_of(attention_case const& c, attention_problem const& problem, attention_schedule const& schedule, emulated_call const& emulated, std::uint64_t repeats) const {
    device_options how{.choice = choice_, .fixes = fixes_of(schedule, plain_), .repeats = repeats};
    if (!emulated.o_low.empty()) {
      if (c.backward) how.stored_low = &emulated.o_low;
      else how.low_output = true;
    }
    call_results pretended;
    if (kernel_ == "none") {
      pretended = emulated.results;
      if (line_.has("sabotage")) {
        auto& codes = c.backward ? pretended.dk : pretended.o;
        codes[codes.size() / 2] = bf16_code::from_bits(std::uint16_t(codes[codes.size() / 2].to_bits() ^ 1));
      }
      how.pretended = &pretended;
    }
    return run_on_device(c, problem, &emulated.forward, how);
  }

  void check(std::uint64_t index, bool tell) {
    attention_case c = draw_case(seed_, index, backward_);
    if (line_.has("fix")) c.fix = line_.text("fix", "");
    c.set(line_.text("set", ""));
    const attention_schedule schedule = with_fixes(plain_, c.fix);
    const attention_problem problem = make_problem(c);
    const auto start = std::chrono::steady_clock::now();
    const emulated_call emulated = emulate_call(c, problem, schedule);
    const auto between = std::chrono::steady_clock::now();
    ++total_.cases;
    std::string wrong;
    call_results on_gpu;
    try {
      on_gpu = results_of(c, problem, schedule, emulated, line_.number("repeats", 1));
      wrong = on_gpu.damage;
    } catch (std::runtime_error const& error) {
      wrong = error.what();
    }
    if (!on_gpu.o.empty() || !on_gpu.dv.empty()) {
      if (c.backward && !c.deterministic) ++total_.without_dq;
      for (tensor_tally const& t : compare_results(c, on_gpu, emulated.results)) {
        auto& of = total_.by_tensor[t.name];
        of.first += t.mismatches, of.second += t.compared;
        if (t.mismatches != 0) wrong += (wrong.empty() ? "" : "\n    ") + mismatch_text(c, t);
      }
      if (line_.has("save")) save_call(line_.text("save", ""), c, problem, schedule, emulated, on_gpu);
      if (line_.has("record")) save_call(recorded_path(index), c, problem, schedule, emulated, on_gpu);
    }
    const auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
    if (tell) std::printf("case %llu: %s (emulated in %.0f ms, GPU %.0f ms)\n", static_cast<unsigned long long>(index), c.text().c_str(), ms(start, between), ms(between, std::chrono::steady_clock::now()));
    if (wrong.empty()) return;
    ++total_.wrong;
    std::printf("case %llu: %s\n    %s\n    stickybit-check-attention --kernel %s%s --seed %llu --case %llu%s%s%s%s\n", static_cast<unsigned long long>(index), c.text().c_str(), wrong.c_str(), kernel_.c_str(), backward_ ? " --backward" : "",
                static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(index), line_.has("fix") ? (" --fix '" + line_.text("fix", "") + "'").c_str() : "", line_.has("set") ? (" --set '" + line_.text("set", "") + "'").c_str() : "",
                line_.has("repeats") ? (" --repeats " + line_.text("repeats", "")).c_str() : "", line_.has("unit") ? (" --unit " + line_.text("unit", "")).c_str() : "");
    std::fflush(stdout);
  }

  [[nodiscard]] std::string recorded_path(std::uint64_t index) const {
    const std::string folder = line_.text("record", "");
    std::filesystem::create_directories(folder);
    return folder + "/" + kernel_ + (backward_ ? "_backward_" : "_forward_") + std::to_string(seed_) + "_" + std::to_string(index) + ".safetensors";
  }

  options const& line_;
  std::string kernel_;
  attention_schedule plain_;
  kernel::kernel_choice choice_;
  bool backward_;
  std::uint64_t seed_;
  totals total_;
};

}  // namespace

attention_schedule checked_schedule(std::string const& kernel, std::string const& name, std::string unit) {
  attention_schedule s = attention_schedule_named(!name.empty() ? name : kernel == "none" ? "fa3" : "stickybit-" + kernel);
  const int capability = compute_capability();
  if (unit.empty() && kernel == "sm80" && capability / 10 == 8) unit = (capability == 80 ? "sm80" : capability == 89 ? "sm89" : "sm86") + std::string(".mma.bf16.f32");
  if (!unit.empty()) s.unit = unit_named(unit).name;
  return s;
}

bool check_attention(options const& line) {
  const std::string kernel = line.text("kernel", "");
  if (kernel != "sm80" && kernel != "sm90" && kernel != "none") throw std::invalid_argument("--kernel '" + kernel + "': expected sm80 or sm90");
  if (line.has("backward") && kernel == "sm90") throw std::invalid_argument("--kernel sm90 --backward: the backward pass is sm80's");
  checker check(line, kernel);
  if (!line.has("time")) return line.has("controls") ? check.run() & check.run_controls() : check.run();
  const attention_schedule plain = checked_schedule(kernel, "", line.text("unit", "")), fixed = with_fixes(plain, line.text("fix", "none"));
  attention_case asked;
  asked.set(line.text("set", ""));
  time_kernel(kernel == "sm90" ? kernel::kernel_choice::sm90 : kernel::kernel_choice::sm80, line.has("backward"), asked.deterministic, fixes_of(fixed, plain), fixed.backward.delta_from == delta_source::high_and_low);
  return true;
}

options attention_options(std::vector<std::string> words) {
  words.insert(words.begin(), "attention");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return options(int(arguments.size()), arguments.data(), {"kernel", "cases", "seed", "fix", "set", "repeats", "case", "save", "record", "golden", "unit", "stop", "schedule"},
                 {"backward", "controls", "time", "sabotage"});
}

}  // namespace stickybit::gpu
