// Answers inner products by a tensor-core instruction over standard input and output, as `stickybit identify unit --program` asks
// them (docs/identify_unit.md): `stickybit identify unit --program "stickybit-unit-server --instruction wgmma"`.
#include <cstdio>
#include <exception>

#include "../support/options.hpp"
#include "evaluate_cases.cuh"

namespace stickybit::gpu {
namespace {

constexpr std::size_t k = 16, words_per_case = 2 * k + 1;
constexpr std::uint64_t most_cases = 1 << 20;

/// Whole words, or false at the end of the input.
bool read_words(std::vector<std::uint64_t>& words) { return std::fread(words.data(), sizeof words[0], words.size(), stdin) == words.size(); }

inner_product_case case_at(std::uint64_t const* words) {
  inner_product_case x;
  for (std::size_t i = 0; i < k; ++i) {
    x.a[i] = bf16_code::from_bits(std::uint16_t(words[i]));
    x.b[i] = bf16_code::from_bits(std::uint16_t(words[k + i]));
  }
  x.c = f32_code::from_bits(std::uint32_t(words[2 * k]));
  return x;
}

template <class By>
void serve() {
  std::printf("stickybit-unit 1 bf16 bf16 f32 f32 %zu\n", k);
  std::fflush(stdout);
  for (std::vector<std::uint64_t> count(1); read_words(count);) {
    if (count[0] > most_cases) throw std::runtime_error("more than 2^20 cases at once");
    std::vector<std::uint64_t> words(std::size_t(count[0]) * words_per_case), results;
    if (!read_words(words)) throw std::runtime_error("the input ends within a batch");
    std::vector<inner_product_case> cases;
    for (std::size_t i = 0; i < count[0]; ++i) cases.push_back(case_at(words.data() + i * words_per_case));
    for (f32_code d : evaluate<By>(cases)) results.push_back(d.to_bits());
    std::fwrite(results.data(), sizeof results[0], results.size(), stdout);
    std::fflush(stdout);
  }
}

void run(int argc, char** argv) {
  const options line(argc, argv, {"instruction"});
  const std::string instruction = line.text("instruction", "mma");
  if (!line.operands().empty() || (instruction != "mma" && instruction != "wgmma")) throw std::invalid_argument("expected --instruction mma or wgmma");
  if (instruction == "mma") serve<by_mma>();
  else serve<by_wgmma>();
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) {
  try {
    stickybit::gpu::run(argc, argv);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "stickybit-unit-server: %s\n", error.what());
    return 2;
  }
}
