// units_random.cu with everything on the GPU: cases, instructions, the definition, the comparison. What the device makes of the cases and of
// the definition is on trial too: of each unit and generator some are made and evaluated on the host as well, bit for bit. For each unit
// controls, the unit with one rule changed, must disagree with the instruction. Exit status 1 if anything is not so.
#include <algorithm>
#include <chrono>

#include "../record/changed_units.hpp"
#include "../support/device.cuh"
#include "../support/options.hpp"
#include "../support/program.hpp"
#include "on_device.hpp"
#include "unit_ways.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-check-units-on-device [--machine sm90] [--only UNIT|all] [--generator NAME|all] [--seed S] [--count N] [--forms 0|1]\n"
    "  N inner products of each generator for each unit (default: sm90, all, all, seed 1, 2^24 = 16777216), by every instruction that has the unit;\n"
    "  --forms 1: negated, transposed and wider forms of wgmma too, which are the same units\n";

constexpr std::size_t chunk_size = std::size_t{1} << 21;
constexpr std::size_t host_count = std::size_t{1} << 14;  // of a generator's first and last chunk, made on the host too; the controls get the first ones

struct settings {
  std::string generator;
  std::uint64_t seed, count;
};

struct control {
  std::string rule;
  device_definition definition;
};

std::vector<control> controls_of(machine_unit const& unit) {
  if (unit.arithmetic == block_arithmetic::fma_chain) return {{"descending k", {unit, true}}};
  std::vector<control> controls;
  for (changed_unit const& changed : changed_units(unit)) controls.push_back({changed.rule, {changed.unit, false}});
  return controls;
}

/// Device memory for a chunk of any generator's cases.
class chunk_memory {
 public:
  explicit chunk_memory(case_shape const& shape)
      : a_(chunk_size * max_case_products * std::size_t(shape.a.storage_bytes())), b_(chunk_size * max_case_products * std::size_t(shape.a.storage_bytes())), c_(chunk_size), d_(chunk_size), defined_(chunk_size), control_(host_count) {}

  [[nodiscard]] device_cases cases(std::size_t count, int row_bytes) const { return {a_.data(), b_.data(), c_.data(), d_.data(), count, row_bytes}; }
  [[nodiscard]] std::uint64_t* defined() const { return defined_.data(); }
  [[nodiscard]] std::uint64_t* control() const { return control_.data(); }

  /// Of the first `host.cases.count` cases: made otherwise here than on the host, and with another result of the definition here.
  [[nodiscard]] std::array<std::size_t, 2> differences(unit_batch const& host) const {
    const std::size_t count = host.cases.count, row_bytes = std::size_t(host.cases.row_bytes);
    std::vector<std::byte> a(count * row_bytes), b(a.size());
    std::vector<std::uint64_t> c(count), defined(count);
    a_.download(a);
    b_.download(b);
    c_.download(c);
    defined_.download(defined);
    std::array<std::size_t, 2> different{};
    for (std::size_t i = 0; i < count; ++i) {
      const auto same_row = [&](std::vector<std::byte> const& x, std::vector<std::byte> const& y) { return std::memcmp(x.data() + i * row_bytes, y.data() + i * row_bytes, row_bytes) == 0; };
      different[0] += !same_row(a, host.cases.a) || !same_row(b, host.cases.b) || c[i] != host.cases.c[i];
      different[1] += defined[i] != host.emulated[i];
    }
    return different;
  }

 private:
  device_array<std::byte> a_, b_;
  device_array<std::uint64_t> c_, d_, defined_, control_;
};

/// One unit: all generators, one after the other.
class unit_check {
 public:
  unit_check(unit_ways const& u, settings const& s)
      : u_(u), s_(s), shape_(shape_of(u.unit)), controls_(controls_of(u.unit)), memory_(shape_), tallies_(u.ways.size() + controls_.size()), mismatches_(u.ways.size()), disagreements_(controls_.size()) {}

  /// Everything as it should be?
  bool run() {
    for (std::size_t g = 0; g < unit_generators.size(); ++g)
      if (s_.generator == "all" || g == unit_generator_named(s_.generator)) check_generator(g);
    return report();
  }

 private:
  [[nodiscard]] bool half_output() const { return shape_.output == f16_format; }

  void check_generator(std::size_t g) {
    std::vector<device_tally> tallies(u_.ways.size() + controls_.size());
    const auto text = std::string(u_.unit.name) + " " + std::string(unit_generators[g].name);
    tallies_.upload(tallies);
    for (std::uint64_t first = 0; first < s_.count; first += chunk_size) {
      const std::size_t count = std::size_t(std::min<std::uint64_t>(chunk_size, s_.count - first));
      check_chunk(g, first, count);
      if (first == 0 || first + count == s_.count) host_checks(g, text, first, std::min(count, host_count));
    }
    finish("a generator");
    tallies_.download(tallies);
    std::size_t mismatches = 0;
    for (std::size_t w = 0; w < u_.ways.size(); ++w) {
      mismatches += tallies[w].mismatches;
      mismatches_[w] += tallies[w].mismatches;
      if (tallies[w].mismatches != 0) print_mismatch(g, u_.ways[w], tallies[w]);
    }
    for (std::size_t j = 0; j < controls_.size(); ++j) disagreements_[j] += tallies[u_.ways.size() + j].mismatches;
    compared_ += s_.count;
    std::printf("%s: %zu mismatches of %llu\n", text.c_str(), mismatches, static_cast<unsigned long long>(s_.count * u_.ways.size()));
    std::fflush(stdout);
  }

  void check_chunk(std::size_t g, std::uint64_t first, std::size_t count) {
    const device_cases x = memory_.cases(count, shape_.k * instructions_of(g, shape_) * shape_.a.storage_bytes());
    make_cases_on_device(shape_, g, s_.seed, first, x);
    define_on_device({u_.unit}, x, memory_.defined());
    for (std::size_t w = u_.ways.size(); w-- > 0;) {  // way 0 last: its results are what the controls see
      launch_way(u_.ways[w], x);
      compare_on_device(half_output(), x, memory_.defined(), first, tallies_.data() + w);
    }
    if (first != 0) return;
    device_cases some = x;
    some.count = std::min(count, host_count);
    controlled_ += some.count;
    for (std::size_t j = 0; j < controls_.size(); ++j) {
      define_on_device(controls_[j].definition, some, memory_.control());
      compare_on_device(half_output(), some, memory_.control(), first, tallies_.data() + u_.ways.size() + j);
    }
  }

  void launch_way(hardware_way const& way, device_cases const& x) const {
    // All ones stay where nothing is written.
    check(cudaMemsetAsync(x.d, 0xff, x.count * sizeof(std::uint64_t)), "cudaMemsetAsync");
    const negated_operands negated = negated_by(way);
    const auto negate = [&] {
      const std::size_t bytes = x.count * std::size_t(x.row_bytes);
      if (negated.a) negate_on_device(x.a, bytes, shape_.a.storage_bytes());
      if (negated.b) negate_on_device(x.b, bytes, shape_.b.storage_bytes());
    };
    negate();
    way.launch(x, {});
    negate();
  }

  void host_checks(std::size_t g, std::string const& text, std::uint64_t first, std::size_t count) {
    const unit_batch host = make_batch(u_.unit, g, s_.seed, first, count);
    const auto [made, defined] = memory_.differences(host);
    on_host_ += count;
    different_ += made + defined;
    if (made + defined != 0) std::printf("%s: on the device %zu cases of %zu are made otherwise than on the host, %zu results of the definition are others\n", text.c_str(), made, count, defined);
  }

  /// The case made again on the host, and its result by evaluate() there.
  void print_mismatch(std::size_t g, hardware_way const& way, device_tally const& tally) const {
    const unit_case x = make_unit_case(shape_, g, s_.seed, tally.first);
    packed_cases one(shape_, 1, x.size);
    one.put(0, as_called(negated_by(way), shape_, x));
    const int bytes = shape_.output == f64_format ? 8 : 4;
    std::printf("  %s by %s: %llu mismatches, the first is case %llu\n    %s: instruction %s, emulated on the host %s\n", std::string(unit_generators[g].name).c_str(),
                std::string(way.instruction).c_str(), tally.mismatches, tally.first, explain_command(u_.unit.name, shape_, x).c_str(), hex_code(one.result_code(way.results(one, {})[0]), bytes).c_str(),
                hex_code(emulated(u_.unit, x), bytes).c_str());
  }

  [[nodiscard]] bool report() const {
    const std::string name(u_.unit.name);
    bool good = different_ == 0;
    for (std::size_t w = 0; w < u_.ways.size(); ++w) {
      std::printf("%s by %s, all generators: %zu mismatches of %zu\n", name.c_str(), std::string(u_.ways[w].instruction).c_str(), mismatches_[w], compared_);
      good = good && mismatches_[w] == 0;
    }
    std::printf("%s on the device and on the host: %zu cases or results differ of %zu\n", name.c_str(), different_, on_host_);
    for (std::size_t j = 0; j < controls_.size(); ++j) {
      const bool must = s_.generator == "all", shown = disagreements_[j] != 0;
      std::printf("control, %s with %s: %zu mismatches of %zu%s\n", name.c_str(), controls_[j].rule.c_str(), disagreements_[j], controlled_, must && !shown ? ", but there must be some" : "");
      good = good && (shown || !must);
    }
    std::fflush(stdout);
    return good;
  }

  unit_ways const& u_;
  settings const& s_;
  case_shape shape_;
  std::vector<control> controls_;
  chunk_memory memory_;
  device_array<device_tally> tallies_;
  std::vector<std::size_t> mismatches_, disagreements_;  // of each way, of each control
  std::size_t compared_ = 0, on_host_ = 0, controlled_ = 0, different_ = 0;
};

bool run(int argc, char** argv) {
  const options line(argc, argv, {"machine", "only", "generator", "seed", "count", "forms"});
  if (!line.operands().empty()) throw std::invalid_argument("unexpected '" + line.operands()[0] + "'");
  const settings s{line.text("generator", "all"), line.number("seed", 1), line.number("count", std::uint64_t{1} << 24)};
  const device_description device = describe_device();
  std::printf("GPU: %s\ndriver: %s\nCUDA runtime: %s\ngenerators: sha256 %s\nseed: %llu\ncount of each generator: %llu\n", device.gpu.c_str(), device.driver.c_str(),
              device.cuda.c_str(), STICKYBIT_UNIT_GENERATORS_SHA256, static_cast<unsigned long long>(s.seed), static_cast<unsigned long long>(s.count));
  bool all = true;
  const auto units = units_to_check(line.text("machine", "sm90"), line.text("only", "all"), line.number("forms", 0) != 0);
  for (unit_ways const& u : units) {
    const auto start = std::chrono::steady_clock::now();
    all = unit_check(u, s).run() && all;
    std::fprintf(stderr, "%s: %.1f s\n", std::string(u.unit.name).c_str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%zu units: %s\n", units.size(), all && !units.empty() ? "all as it should be" : "not all as it should be");
  return all && !units.empty();
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-check-units-on-device", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
