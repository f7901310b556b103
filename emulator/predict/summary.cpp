#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stickybit/predict/forecast.hpp"

namespace stickybit {
namespace {

/// Means of units in their own ulp.
class tensor_sum {
 public:
  explicit tensor_sum(std::string_view tensor) { total_.tensor = tensor; }

  /// Units that share nothing.
  void add_rows(std::span<expected_mean const> rows) {
    for (expected_mean const& e : rows)
      if (add(e)) variance_ += e.variance() / (e.ulp * e.ulp);
  }
  /// Columns of a matrix, which share its rows: the variance of their mean is that of the mean over everything.
  void add_matrix(expected_matrix const& m) {
    double inverse = 0, columns = 0;
    for (expected_mean const& e : m.by_column)
      if (add(e)) inverse += 1 / e.ulp, columns += 1;
    variance_ += m.all.variance() * inverse * inverse;
  }
  [[nodiscard]] tensor_forecast total() const {
    tensor_forecast t = total_;
    if (t.units == 0) return t;
    t.mean_ulp = sum_ / double(t.units);
    t.standard_error_ulp = std::sqrt(variance_) / double(t.units);
    return t;
  }

 private:
  bool add(expected_mean const& e) {
    if (e.ulp == 0) return false;
    ++total_.units;
    total_.not_normal += !e.is_normal();
    sum_ += e.mean / e.ulp;
    return true;
  }

  tensor_forecast total_;
  double sum_ = 0, variance_ = 0;
};

}  // namespace

std::vector<tensor_forecast> summarize(std::span<forecast const> heads) {
  tensor_sum o("o"), delta("delta"), dp("dp"), ds("ds"), dq("dq"), dk("dk"), dv("dv");
  bool gradients = false;
  for (forecast const& f : heads) {
    for (head_forecast const& h : f.heads) {
      o.add_matrix(h.o);
      gradients = gradients || !h.delta.empty();
      delta.add_rows(h.delta);
      dp.add_rows(h.dp);
      ds.add_rows(h.ds);
      dq.add_matrix(h.dq);
    }
    dk.add_matrix(f.dk);
    dv.add_matrix(f.dv);
  }
  if (!gradients) return {o.total()};
  return {o.total(), delta.total(), dp.total(), ds.total(), dq.total(), dk.total(), dv.total()};
}

}  // namespace stickybit
