#pragma once
#include <cmath>
#include <string>

#include "stickybit/attention/backward.hpp"
#include "support/random_calls.hpp"

namespace stickybit {

/// Fills q, k, v and dO of a problem whose sizes are set.
inline void fill_all(attention_problem& p, regime r, std::mt19937_64& random) {
  fill(p, r, random);
  p.d_o = random_codes(p.q.size(), r == regime::subnormal ? 0x1p-10 : 1, random);
  if (r == regime::specials && random() % 2 == 0) p.d_o[random() % p.d_o.size()] = random() % 2 == 0 ? bf16_code::infinity() : bf16_code::nan();
  if (r == regime::all_bits)
    for (bf16_code& c : p.d_o) c = bf16_code::from_bits(std::uint16_t(random()));
}

inline bf16_code bf16_of(double x) { return convert<format::bf16>(code_of(float(x))); }

template <class Code>
std::int64_t differing(std::vector<Code> const& x, std::vector<Code> const& y) {
  std::int64_t n = x.size() != y.size();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) n += x[i] != y[i];
  return n;
}
inline std::int64_t differing(backward_result const& x, backward_result const& y) {
  return differing(x.dq, y.dq) + differing(x.dk, y.dk) + differing(x.dv, y.dv) + differing(x.delta, y.delta) + differing(x.lse_log2, y.lse_log2);
}
inline std::int64_t codes_of(backward_result const& x) { return std::int64_t(x.dq.size() + x.dk.size() + x.dv.size() + x.delta.size() + x.lse_log2.size()); }

/// Forward, then backward, by one engine.
inline backward_result gradients(attention_schedule const& schedule, attention_problem const& p, backward_options const& options = {}) {
  return attention_backward(schedule, p, attention_forward(schedule, p, options.how), options);
}
inline backward_result gradients(attention_schedule const& schedule, attention_problem const& p, engine how) {
  backward_options options;
  options.how = how;
  return gradients(schedule, p, options);
}

/// A call whose gradients are known by hand. One column each of Q, K, V and dO is used: q in column 1, k in 0, v in 0, dO in 0, so every
/// score is 0; with lse = 0 each weight is 1, and O = 0 makes delta 0. With scale 1 and every key visible:
///   dP_ij = dS_ij = dO_i·v_j,  dQ_i0 = Σ_j dS_ij·k_j,  dK_j1 = Σ_i dS_ij·q_i,  dV_j0 = Σ_i dO_i; all other elements 0.
struct plain_call {
  attention_problem problem;
  forward_result forward;

  plain_call(std::int64_t queries, std::int64_t keys, std::int64_t heads = 1, std::int64_t key_heads = 1) {
    problem = call_of(queries, keys, 64, false);
    problem.heads = heads;
    problem.key_heads = key_heads;
    problem.layout = tensor_layout::b_h_s_d;
    problem.softmax_scale = 1;
    problem.q.resize(std::size_t(heads * queries * 64));
    problem.k.resize(std::size_t(key_heads * keys * 64));
    problem.v.resize(problem.k.size());
    problem.d_o.resize(problem.q.size());
    forward = {.o = std::vector<bf16_code>(problem.q.size()), .lse = std::vector<f32_code>(std::size_t(heads * queries)), .o_f32 = {}};
  }
  bf16_code& q(std::int64_t i) { return problem.q[std::size_t(i * 64 + 1)]; }
  bf16_code& k(std::int64_t j) { return problem.k[std::size_t(j * 64)]; }
  bf16_code& v(std::int64_t j) { return problem.v[std::size_t(j * 64)]; }
  bf16_code& d_o(std::int64_t i) { return problem.d_o[std::size_t(i * 64)]; }

  [[nodiscard]] backward_result run(attention_schedule const& schedule, std::vector<std::int64_t> const& order = {}) const {
    backward_options options;
    options.dq_order = order;
    options.keep_f32 = true;
    return attention_backward(schedule, problem, forward, options);
  }
};

inline double dq_of(backward_result const& r, std::int64_t i) { return to_double(r.dq[std::size_t(i * 64)]); }
inline double dk_of(backward_result const& r, std::int64_t j) { return to_double(r.dk[std::size_t(j * 64 + 1)]); }
inline double dv_of(backward_result const& r, std::int64_t j) { return to_double(r.dv[std::size_t(j * 64)]); }

}  // namespace stickybit
