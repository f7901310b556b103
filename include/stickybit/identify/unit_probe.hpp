#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "stickybit/machine/unit.hpp"

// Black boxes that compute c + Σ a[k]·b[k], K fixed: all that `identify unit` knows of a unit.

namespace stickybit {

/// What goes in and comes out.
struct unit_formats {
  format a = format::bf16, b = format::bf16;
  format c = format::f32;  ///< FP16: only values that FP16 holds are given
  format output = format::f32;
  int k = 16;

  friend bool operator==(unit_formats const&, unit_formats const&) = default;
};

/// The operands of one inner product. c is an FP32 code whatever the unit's (FP64: of that).
struct unit_case {
  std::vector<std::uint64_t> a, b;  ///< [K]
  std::uint64_t c = 0;

  friend bool operator==(unit_case const&, unit_case const&) = default;
};

/// A unit that does not answer: it crashed, hung, or said something that is no answer.
class unit_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A unit under test. Results are FP32 codes, of FP16 results too (FP64: of that); an FP16 NaN's fraction is in the upper bits, and
/// where it is all ones so is the rest.
class unit_under_test {
 public:
  virtual ~unit_under_test() = default;
  [[nodiscard]] virtual unit_formats formats() const = 0;
  /// @throws unit_failure
  [[nodiscard]] virtual std::vector<std::uint64_t> evaluate(std::span<unit_case const> cases) = 0;
};

/// Any machine unit without scales, emulated.  @throws std::invalid_argument for one with scales
[[nodiscard]] std::unique_ptr<unit_under_test> emulated_unit(machine_unit const& unit);

/// A shared library with the C function of unit_probe.h, run in a child process.
/// @param seconds  that a batch may take.  @throws unit_failure
[[nodiscard]] std::unique_ptr<unit_under_test> library_unit(std::string const& path, double seconds);

/// A program, started once through a shell, that answers over its standard input and output. It first writes the line
/// "stickybit-unit 1 <A> <B> <C> <D> <K>". Then, in the host's (little-endian) words of 64 bits: it is given a count n and n cases, each K
/// codes of A, K of B and one of C; it answers with n codes of D. The end of its input is the end.
/// @throws unit_failure
[[nodiscard]] std::unique_ptr<unit_under_test> program_unit(std::string const& command, double seconds);

/// evaluate() of the unit for each case.
[[nodiscard]] std::vector<std::uint64_t> results_of(machine_unit const& unit, std::span<unit_case const> cases);
[[nodiscard]] std::uint64_t result_of(machine_unit const& unit, unit_case const& x);

/// The formats that a unit of ours takes and gives.
[[nodiscard]] unit_formats formats_of(machine_unit const& unit) noexcept;

/// FP32 to FP16 codes and back, as they pass through a black box: exact, a NaN keeps its upper fraction bits.
[[nodiscard]] std::uint64_t to_f16_bits(std::uint64_t f32_bits) noexcept;
[[nodiscard]] std::uint64_t from_f16_bits(std::uint64_t f16_bits) noexcept;

}  // namespace stickybit
