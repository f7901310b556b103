#include "dumps.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

// STICKYBIT_TEST_LZMA: 1 where CMake found liblzma.
#if STICKYBIT_TEST_LZMA
#include <lzma.h>
#endif

namespace testing {

std::filesystem::path dump_folder() { return std::filesystem::path(STICKYBIT_CAPTURES_DIR) / "h200" / "sfu"; }

bool dumps_available() {
  std::string why;
  if (!std::filesystem::is_directory(dump_folder())) why = fmt::format("no folder {}", dump_folder().string());
  else if (STICKYBIT_TEST_LZMA == 0) why = "built without liblzma";
  if (why.empty()) return true;
  fmt::print("SKIPPED: {}\n", why);
  std::fflush(stdout);
  return false;
}

namespace {

#if STICKYBIT_TEST_LZMA
std::vector<std::uint8_t> decompressed(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("cannot open {}", file.string()));
  const std::vector<char> packed{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::uint8_t> plain(std::size_t{4} << 23);
  std::uint64_t memory_limit = UINT64_MAX;
  std::size_t in_at = 0, out_at = 0;
  const lzma_ret result = lzma_stream_buffer_decode(&memory_limit, 0, nullptr, reinterpret_cast<std::uint8_t const*>(packed.data()), &in_at, packed.size(), plain.data(),
                                                    &out_at, plain.size());
  if (result != LZMA_OK || out_at != plain.size())
    throw std::runtime_error(fmt::format("{}: expected xz of {} bytes, got {} and status {}", file.string(), plain.size(), out_at, int(result)));
  return plain;
}
#else
std::vector<std::uint8_t> decompressed(std::filesystem::path const& file) { throw std::runtime_error(fmt::format("{}: built without liblzma", file.string())); }
#endif

}  // namespace

std::vector<std::uint32_t> read_dump(std::filesystem::path const& file) {
  const std::vector<std::uint8_t> bytes = decompressed(file);
  std::vector<std::uint32_t> results(bytes.size() / 4);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    sum += std::uint32_t{bytes[4 * i]} | std::uint32_t{bytes[4 * i + 1]} << 8 | std::uint32_t{bytes[4 * i + 2]} << 16 | std::uint32_t{bytes[4 * i + 3]} << 24;
    results[i] = sum;
  }
  return results;
}

}  // namespace testing
