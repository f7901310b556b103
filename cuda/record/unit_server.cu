// Answers inner products by a tensor-core instruction over standard input and output, as `stickybit identify unit --program` asks
// them (docs/identify_unit.md): `stickybit identify unit --program "stickybit-unit-server --unit wgmma.e4m3.f32"`.
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "../support/options.hpp"
#include "hardware_ways.hpp"
#include "unit_batch.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage = "usage: stickybit-unit-server --unit mma.bf16.f32|wgmma.e4m3.f16|...   a unit of sm90 without the machine's name\n";
constexpr std::uint64_t most_cases = 1 << 20;

/// Whole words, or false at the end of the input.
bool read_words(std::vector<std::uint64_t>& words) { return std::fread(words.data(), sizeof words[0], words.size(), stdin) == words.size(); }

/// @throws std::invalid_argument naming the units that there are
hardware_way way_named(std::string const& name) {
  std::string known;
  for (hardware_way const& way : hardware_ways()) {
    if (!way.main) continue;
    if (way.unit == name) return way;
    (known += " ") += way.unit;
  }
  throw std::invalid_argument("--unit " + name + ": expected one of" + known);
}

/// Cases as they arrive: K codes of A, K of B, one of c, in words of 64 bits; c of an FP16 unit is an FP16 code.
packed_cases packed(case_shape const& shape, std::vector<std::uint64_t> const& words, std::size_t count) {
  const auto k = std::size_t(shape.k);
  packed_cases cases(shape, count, shape.k);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t const* at = words.data() + i * (2 * k + 1);
    unit_case x;
    x.size = shape.k;
    for (std::size_t j = 0; j < k; ++j) {
      x.a[j] = at[j];
      x.b[j] = at[k + j];
    }
    cases.put(i, x);
    cases.c[i] = at[2 * k];
  }
  return cases;
}

void serve(hardware_way const& way, machine_unit const& unit) {
  case_shape shape = shape_of(unit);
  shape.k = way.k;
  const auto name = [](format f) { return std::string(traits_of(f).name); };
  const std::string output = name(unit.output);
  std::printf("stickybit-unit 1 %s %s %s %s %d\n", name(unit.input).c_str(), name(unit.input_b).c_str(), output.c_str(), output.c_str(), way.k);
  std::fflush(stdout);
  for (std::vector<std::uint64_t> count(1); read_words(count);) {
    if (count[0] > most_cases) throw std::runtime_error("more than 2^20 cases at once");
    std::vector<std::uint64_t> words(std::size_t(count[0]) * std::size_t(2 * way.k + 1));
    if (!read_words(words)) throw std::runtime_error("the input ends within a batch");
    const std::vector<std::uint64_t> results = way.results(packed(shape, words, std::size_t(count[0])), {});
    std::fwrite(results.data(), sizeof results[0], results.size(), stdout);
    std::fflush(stdout);
  }
}

void run(int argc, char** argv) {
  const options line(argc, argv, {"unit"});
  if (!line.operands().empty()) throw std::invalid_argument("expected options only");
  const hardware_way way = way_named(line.text("unit", "mma.bf16.f32"));
  const std::optional<machine_unit> unit = find_unit("sm90." + std::string(way.unit));
  if (!unit || unit->output == format::f64) throw std::invalid_argument("--unit " + std::string(way.unit) + ": expected a unit with FP32 or FP16 results");
  serve(way, *unit);
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) {
  try {
    stickybit::gpu::run(argc, argv);
    return 0;
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "stickybit-unit-server: %s\n%s", error.what(), stickybit::gpu::usage);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "stickybit-unit-server: %s\n", error.what());
    return 1;
  }
}
