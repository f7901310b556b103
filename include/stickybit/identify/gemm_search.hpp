#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/identify/gemm_order.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// A library's product, or some rows and columns of it.
struct captured_product {
  std::string name;                 ///< of the result: "cublas.d_f32"
  format input = format::bf16;      ///< bf16, f16, or tf32: FP32 codes, for TF32 units or FMA
  format output = format::f32;      ///< f32, bf16, f16
  std::int64_t m = 0, n = 0, k = 0; ///< that are here
  std::vector<std::uint32_t> a;     ///< codes [m×k]
  std::vector<std::uint32_t> b;     ///< codes [n×k]
  std::vector<std::uint32_t> d;     ///< codes [m×n]
  std::vector<f32_code> c;          ///< [m×n] or empty
  std::int64_t rows = 0, columns = 0;               ///< of the whole output
  std::vector<std::int64_t> row_index, column_index;  ///< where the m rows and n columns lie in it
  std::string machine;              ///< "sm90", or empty: not known
  std::string truth;                ///< what is known of the order, in the words of text_of(); for tests
  std::string kernels;              ///< names, where recorded
};

/// Every result of a file: d, or <producer>.d_f32, .d_bf16, .d_f16, with a [m,k], b [n,k], perhaps c. Metadata: row_index, column_index (numbers with commas), m, n of the
/// whole, gpu.
/// @throws file_error naming what is missing or of another shape
[[nodiscard]] std::vector<captured_product> read_captured_products(tensor_file const& file);

/// What a search found.
struct gemm_search_result {
  /// Orders that give every element, simplest first; those of one group are the same arithmetic in other words.
  struct fit {
    gemm_order order;
    int group;
  };
  std::vector<fit> fits;
  std::int64_t elements = 0;      ///< compared in each
  std::int64_t orders_tried = 0;
  bool other_cuts_left_out = false;   ///< so many orders give the sample that some, with other cuts, were not compared further
  std::optional<gemm_order> closest;  ///< where nothing fits
  std::int64_t closest_mismatches = 0;

  [[nodiscard]] int groups() const noexcept;
  /// Do all fits cut K alike, with sums of the same formats? Then they differ within slices, and in how slices are added, of which partial sums in BF16 show little.
  [[nodiscard]] bool one_split() const noexcept;
  /// Some order fits, and not so many that the data says nothing.
  [[nodiscard]] bool named() const noexcept { return !fits.empty() && (groups() <= most_groups || one_split()); }
  static constexpr int most_groups = 24;
};

struct gemm_search_options {
  std::optional<std::string> unit;  ///< only this one (a machine's, or fp32.fma)
  progress report = {};
};

/// Searches splits of K (equal, unequal, anywhere), sliced tiles, walks, stream-K, units, formats and orders of the additions; first on a few elements, then on all.
/// @throws unknown_name, shape_error
[[nodiscard]] gemm_search_result search_gemm(captured_product const& product, gemm_search_options const& options = {});

/// The units that can have computed such a product, of different numbers, on its machine if that is known.
[[nodiscard]] std::vector<std::string> candidate_units(captured_product const& product);

/// Other units of the same machine with the same numbers.
[[nodiscard]] std::vector<std::string> units_like(std::string const& unit);

}  // namespace stickybit
