// What cuBLAS, cuBLASLt and Triton gave on an H200: each result is named, or unknown; none has a name that contradicts what is known of it.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <vector>

#include "stickybit/identify/gemm_search.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

struct recorded_counts {
  std::set<std::string> shapes, named_shapes;
  int results = 0, named = 0, not_plain = 0, by_half_output_only = 0, with_truth = 0;
};

bool plain(gemm_order const& o) { return o.cuts.size() == 2 && !o.stream && o.ways == 1 && !o.tiles_descending; }

/// Every fit is checked against the truth; a result is right where one of the orders that this data cannot tell apart is the true one.
void check(std::string const& file, captured_product const& p, recorded_counts& counts) {
  const gemm_search_result r = search_gemm(p);
  ++counts.results;
  counts.shapes.insert(file);
  std::cout << fmt::format("{} {}: {}\n", file, p.name,
                           r.named() ? fmt::format("{} ({} of {} elements, {} indistinguishable)", text_of(r.fits.front().order, p.output), r.elements, r.elements, r.groups() - 1)
                                     : fmt::format("unknown, closest {} with {} mismatches of {}", r.closest ? text_of(*r.closest, p.output) : "none", r.closest_mismatches, r.elements));
  if (!r.named()) return;
  ++counts.named;
  counts.named_shapes.insert(file);
  counts.not_plain += !plain(r.fits.front().order);
  counts.by_half_output_only += p.output != format::f32;
  if (p.truth.empty()) return;
  ++counts.with_truth;
  INFO(file << " " << p.name << ": known " << p.truth << ", named " << text_of(r.fits.front().order, p.output));
  CHECK(std::any_of(r.fits.begin(), r.fits.end(), [&](gemm_search_result::fit const& f) { return !contradiction(f.order, p.output, p.truth); }));
}

}  // namespace

namespace {

/// Every recorded result, or of every third file one, another's place in turn.
recorded_counts check_files(bool all) {
  recorded_counts counts;
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / "gemm"))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < files.size(); i += all ? 1 : 3) {
    const std::vector<captured_product> products = read_captured_products(tensor_file::load(files[i]));
    for (std::size_t n = 0; n < products.size(); ++n)
      if (all || n == i % products.size()) check(files[i].stem().string(), products[n], counts);
  }
  std::cout << fmt::format("{} of {} shapes, {} of {} results named: {} no plain chain, {} by a BF16 or FP16 output alone, {} against a known order\n", counts.named_shapes.size(),
                           counts.shapes.size(), counts.named, counts.results, counts.not_plain, counts.by_half_output_only, counts.with_truth);
  return counts;
}

}  // namespace

TEST_CASE("gemm search: a recorded product of every third shape by cuBLAS, cuBLASLt or Triton is named, and no name is wrong", "[identify][golden]") {
  const recorded_counts counts = check_files(false);
  CHECK(counts.results == 16);
  CHECK(counts.named >= 14);
  CHECK(counts.not_plain >= 5);
  CHECK(counts.by_half_output_only >= 2);
  CHECK(counts.with_truth >= 3);
}

TEST_CASE("gemm search: all recorded products of cuBLAS, cuBLASLt and Triton are named, and no name is wrong", "[.long][identify][golden]") {
  const recorded_counts counts = check_files(true);
  CHECK(counts.shapes.size() == 47);
  CHECK(counts.named_shapes.size() == 47);
  CHECK(counts.named >= 114);
  CHECK(counts.not_plain >= 70);
  CHECK(counts.by_half_output_only >= 40);
  CHECK(counts.with_truth >= 50);
}

namespace {

tensor_file small_file() {
  tensor_file file("small");
  file.add("a", make_tensor<bf16_code>(dtype::bf16, {2, 16}, std::vector<bf16_code>(32)));
  file.add("b", make_tensor<bf16_code>(dtype::bf16, {3, 16}, std::vector<bf16_code>(48)));
  return file;
}

}  // namespace

TEST_CASE("gemm search: what is wrong with a file is one file_error", "[identify]") {
  tensor_file file = small_file();
  CHECK_THROWS_AS(read_captured_products(file), file_error);  // no result
  file.add("x.d_f32", make_tensor<f32_code>(dtype::f32, {2, 3}, std::vector<f32_code>(6)));
  CHECK(read_captured_products(file).size() == 1);
  for (const char* indices : {"0", "0,1,2", "1,0", "0,-1", "0,x", "0,1,"}) {
    file.metadata.insert_or_assign("row_index", std::string(indices));
    CHECK_THROWS_AS(read_captured_products(file), file_error);
  }
  file.metadata.insert_or_assign("row_index", std::string("5,7"));
  file.metadata.insert_or_assign("m", std::string("7"));
  CHECK_THROWS_AS(read_captured_products(file), file_error);
  file.metadata.insert_or_assign("m", std::string("8"));
  CHECK(read_captured_products(file).front().rows == 8);
  tensor_file other = small_file();
  other.add("d_f32", make_tensor<f32_code>(dtype::f32, {3, 2}, std::vector<f32_code>(6)));
  CHECK_THROWS_AS(read_captured_products(other), file_error);
}

TEST_CASE("gemm search: a result that is zero everywhere has no name", "[identify]") {
  tensor_file file = small_file();
  file.add("d_f32", make_tensor<f32_code>(dtype::f32, {2, 3}, std::vector<f32_code>(6)));
  const gemm_search_result r = search_gemm(read_captured_products(file).front());
  CHECK_FALSE(r.named());
}
