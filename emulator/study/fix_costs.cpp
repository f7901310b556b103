#include "stickybit/study/fix_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "stickybit/fix/fix.hpp"

namespace stickybit {
namespace {

struct priced_fix {
  std::string_view fix;  // with the parameter that changes its cost
  fix_cost cost;
};

// The longest entry that a fix's text begins with is its price.
constexpr std::array prices{
    priced_fix{"none", {0, 0, 0, ""}},
    priced_fix{"beta", {0, 2, 0, "each score compared with the maximum, and counted"}},
    priced_fix{"subtract-first", {0, 1, 0, "a subtraction and a product where one fused operation was"}},
    priced_fix{"two-row-sums", {0, 1, 0, "a second addition"}},
    priced_fix{"k-smooth", {0, 0, 4, "K read for its mean, and written again without it"}},
    priced_fix{"gproj", {3, 3, 20, "dQ's product P K, its FP32 sum written and read (8); for dK, S and P once more and P^T(e o Q): Q and K read (4), dK in FP32 between the passes (8)"}},
    priced_fix{"gproj:targets=dq", {1, 2, 8, "the product P K; its FP32 sum written and read beside dQ's; the row sums of dS and P"}},
    priced_fix{"gproj:weights=uniform", {0, 1, 12, "the row sum of dS; the means of K and of e o Q (Q and K read, 4); dK in FP32 once more (8)"}},
    priced_fix{"gproj:weights=uniform,targets=dq", {0, 1, 2, "the row sum of dS; K read for its mean"}},
    priced_fix{"winner", {0, 2, 12, "the row sum of dS and the place of the largest weight; its key and q read (4), dK in FP32 written and read once more (8)"}},
    priced_fix{"delta-fp32", {0, 0, 6, "O in FP32 written (4), and read in the place of the BF16 O (2 more)"}},
    priced_fix{"delta-hilo", {0, 0, 4, "a second BF16 number written and read"}},
    priced_fix{"delta-mma", {0, 0, 0, "the diagonal of dO O^T: 16 multiply-adds in the place of 1, for s·d elements, not s·s_k·d"}},
    priced_fix{"delta-pdp", {2, 3, 8, "S and dP once more, with the exponential and two sums; Q, K, V, dO read again"}},
    priced_fix{"fp32", {7 * 14, 0, 6, "seven products off the tensor core; O in FP32, as delta-fp32"}},
    priced_fix{"fp32:delta=pdp", {7 * 14 + 2 * 15, 3, 8, "seven products off the tensor core, two more in FP32, as delta-pdp"}},
    priced_fix{"fp32-backward", {5 * 14, 0, 0, "five products off the tensor core"}},
};

fix_cost price_of(std::string_view fix) {
  const priced_fix* best = nullptr;
  for (priced_fix const& p : prices) {
    const bool whole = fix == p.fix || (fix.starts_with(p.fix) && (fix[p.fix.size()] == ':' || fix[p.fix.size()] == ','));
    if (whole && (best == nullptr || p.fix.size() > best->fix.size())) best = &p;
  }
  if (best == nullptr) throw invalid_fix(fmt::format("fix '{}' has no cost in the table", fix));
  return best->cost;
}

bool in_fp32(std::string_view fix) { return fix.starts_with("fp32"); }

}  // namespace

fix_cost cost_of(std::string_view fixes) {
  fix_cost sum;
  bool alone = true;
  const bool slow = fixes.find("fp32") != fixes.npos && (fixes.starts_with("fp32") || fixes.find("+fp32") != fixes.npos);
  while (!fixes.empty()) {
    const std::size_t plus = fixes.find('+');
    const std::string_view one = fixes.substr(0, plus);
    const fix_cost cost = price_of(one);
    sum.products += cost.products * (slow && !in_fp32(one) ? 15 : 1);
    sum.score_operations += cost.score_operations;
    sum.bytes += cost.bytes;
    alone = alone && plus == fixes.npos;
    sum.reason = alone ? cost.reason : "";
    fixes = plus == fixes.npos ? std::string_view{} : fixes.substr(plus + 1);
  }
  return sum;
}

}  // namespace stickybit
