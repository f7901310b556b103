#include "faulty_kernel.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::testing {

std::vector<right_kernel> right_kernels() {
  std::vector<right_kernel> all;
  for (attention_schedule const& s : all_attention_schedules()) all.push_back({emulated_kernel(std::string(s.name)), std::string(s.name), false, !s.backward_tiles.empty()});
  for (const char* fixed : {"fa3+subtract-first", "fa2-torch+two-row-sums", "cudnn+beta", "fa3+gproj", "fa3@sm80.mma.bf16.f32"}) all.push_back({emulated_kernel(fixed), fixed, false, false});
  for (bool cudnn : {false, true}) {
    const std::string schedule = cudnn ? "cudnn" : "fa3";
    const auto add = [&](const char* name, auto change) {
      kernel_form form{.name = std::string("plain ") + schedule + name, .as_cudnn = cudnn, .defects = {}};
      change(form);
      all.push_back({plain_kernel(form), schedule, true, !cudnn});
    };
    add("", [](kernel_form&) {});
    add(", rows and heads descending", [](kernel_form& f) { f.rows_descending = f.heads_descending = true; });
    add(", columns of V in halves, upper first", [](kernel_form& f) { f.columns_in_halves = true; });
    add(", keys padded to whole blocks", [](kernel_form& f) { f.padded = true; });
  }
  return all;
}

}  // namespace stickybit::testing
