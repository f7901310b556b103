#pragma once
#include <cstdio>
#include <optional>

#include "../support/parallel.hpp"
#include "packed_cases.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/machine/machine.hpp"

// Cases of a machine's unit with what the definition says of them.

namespace stickybit::gpu {

[[nodiscard]] constexpr case_format case_format_of(format f) {
  const format_traits t = traits_of(f);
  const case_specials specials = t.special == special_codes::ieee ? case_specials::ieee
                                 : t.special == special_codes::nan_all_ones ? case_specials::nan_all_ones : case_specials::none;
  return {t.exponent_bits, t.fraction_bits(), t.padding_bits, specials};
}

/// What the generators aim at. FP64 has no alignment: its numbers are those of FP64's own rounding, its instruction the longest.
[[nodiscard]] constexpr case_shape shape_of(machine_unit const& unit) {
  const case_format output = case_format_of(unit.output);
  const bool chain = unit.arithmetic == block_arithmetic::fma_chain;
  const int kept = unit.output == format::f32 ? unit.output_fraction_bits : output.fraction_bits;
  return {case_format_of(unit.input), case_format_of(unit.input_b), output, chain ? 16 : unit.instruction_k, unit.block_size,
          chain ? output.fraction_bits + 1 : unit.alignment_fraction_bits, chain ? output.e_lowest() : unit.min_alignment_exponent, kept};
}

/// The unit of that name; none where no machine has it.
[[nodiscard]] inline std::optional<machine_unit> find_unit(std::string_view name) {
  for (machine const* m : all_machines())
    for (machine_unit const& unit : m->units)
      if (unit.name == name) return unit;
  return std::nullopt;
}

[[nodiscard]] inline std::uint64_t emulated(machine_unit const& unit, unit_case const& x) {
  const auto size = std::size_t(x.size);
  return evaluate(unit, {.a = std::span(x.a).first(size), .b = std::span(x.b).first(size), .scale_a = {}, .scale_b = {}, .c = x.c});
}

struct unit_batch {
  packed_cases cases;
  std::vector<std::uint64_t> emulated;
};

/// Cases first .. first + count − 1 of a generator, made and emulated on all cores.
[[nodiscard]] inline unit_batch make_batch(machine_unit const& unit, std::size_t generator, std::uint64_t seed, std::uint64_t first, std::size_t count) {
  const case_shape shape = shape_of(unit);
  unit_batch batch{{shape, count, shape.k * instructions_of(generator, shape)}, std::vector<std::uint64_t>(count)};
  parallel_ranges(count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const unit_case x = make_unit_case(shape, generator, seed, first + i);
      batch.cases.put(i, x);
      batch.emulated[i] = emulated(unit, x);
    }
  });
  return batch;
}

[[nodiscard]] inline std::string hex_code(std::uint64_t bits, int bytes) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx", 2 * bytes, static_cast<unsigned long long>(bits));
  return text;
}

/// "stickybit explain dot --unit U --a ... --b ... --c ...": the command that takes the case apart.
[[nodiscard]] inline std::string explain_command(std::string_view unit, case_shape const& shape, unit_case const& x) {
  std::string text = "stickybit explain dot --unit " + std::string(unit);
  for (bool a : {true, false}) {
    text += a ? " --a " : " --b ";
    for (std::size_t k = 0; k < std::size_t(x.size); ++k)
      (text += k == 0 ? "" : ",") += hex_code(a ? x.a[k] : x.b[k], (a ? shape.a : shape.b).storage_bytes());
  }
  return text + " --c " + hex_code(x.c, shape.output == f64_format ? 8 : 4);
}

}  // namespace stickybit::gpu
