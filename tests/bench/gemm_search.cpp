// The search for a product's order, beside one product of the same shape.
#include "inputs.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/identify/gemm_search.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::bench {

void add_gemm_search(std::vector<comparison>& list) {
  constexpr std::int64_t m = 32, n = 32, k = 1024;
  static const std::vector<bf16_code> a = normal_codes<format::bf16>(std::size_t(m * k), 5), b = normal_codes<format::bf16>(std::size_t(n * k), 6);
  static captured_product p;
  p = {.name = "bench", .m = m, .n = n, .k = k, .a = {}, .b = {}, .d = {}, .c = {}, .rows = m, .columns = n, .row_index = {}, .column_index = {}, .machine = "sm90", .truth = {}, .kernels = {}};
  for (bf16_code c : a) p.a.push_back(c.to_bits());
  for (bf16_code c : b) p.b.push_back(c.to_bits());
  for (std::int64_t i = 0; i < m; ++i) p.row_index.push_back(i), p.column_index.push_back(i);
  static const auto product = [] { return gemm(unit_named("sm90.wgmma.bf16.f32"), gemm_problem{m, n, k, a, b, {}}, 3); };
  for (f32_code c : product()) p.d.push_back(c.to_bits());
  list.push_back({"identify: order of a product, 32×32×1024, split K", "product", 1, [] { witness = std::uint32_t(search_gemm(p).fits.size()); }, {},
                  {"one such product by gemm()", 1, [] { witness = product().front().to_bits(); }}});
}

}  // namespace stickybit::bench
