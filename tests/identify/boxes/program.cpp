// A program as `stickybit identify unit --program` takes it.
#include <cstdio>
#include <vector>

#include "box.hpp"

int main() {
  using namespace boxes;
  std::printf("stickybit-unit 1 bf16 bf16 f32 f32 %u\n", k_count);
  std::fflush(stdout);
  for (std::uint64_t count = 0; std::fread(&count, sizeof count, 1, stdin) == 1;) {
    std::vector<std::uint64_t> words(count * (2 * k_count + 1)), d(count);
    if (std::fread(words.data(), sizeof words[0], words.size(), stdin) != words.size()) return 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t* x = words.data() + i * (2 * k_count + 1);
      d[i] = inner_product(chosen(), x, x + k_count, x[2 * k_count]);
    }
    std::fwrite(d.data(), sizeof d[0], d.size(), stdout);
    std::fflush(stdout);
  }
}
