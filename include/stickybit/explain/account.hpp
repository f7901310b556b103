#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/format.hpp"
#include "stickybit/machine/unit.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "stickybit/trace/sink.hpp"

// How one number came about: every operation on the way to it, each with its operands, the code that it gave and the value that it would have
// had if nothing before it had been rounded. The steps are recorded while the law of a kernel runs (with numbers that remember where they come
// from), so an account cannot tell another story than the bits; replay() computes every step again from its operands alone.

namespace stickybit {

/// Each is the definition of that name in an earlier stage.
enum class operation : std::uint8_t {
  input,  ///< given: an element of a tensor, or what another kernel stored
  add,
  multiply,
  fma,
  divide,
  maximum,    ///< of all its operands
  ex2,        ///< MUFU, .ftz
  rcp,        ///< MUFU, .ftz
  lg2,        ///< MUFU, .ftz
  exp2,       ///< CUDA's exp2f that keeps subnormals
  expf,       ///< CUDA's expf
  logf,       ///< CUDA's logf
  log2f,      ///< libdevice's log2f
  block_fma,  ///< one step of a tensor core; operands a₀ b₀ a₁ b₁ … c
  cast,       ///< to a narrower format
};
[[nodiscard]] std::string_view name_of(operation op) noexcept;

/// What a step is, where the law has a name for it: "S" of key 17, "m" after block 2. Steps on the way to it have none.
struct quantity {
  std::string_view symbol = {};
  std::int32_t i = -1, j = -1;
  friend bool operator==(quantity const&, quantity const&) = default;
};

/// What a step takes: the result of an earlier step, or a literal, perhaps with its sign flipped.
struct account_operand {
  static constexpr std::int32_t literal = -1;
  std::int32_t step = literal;
  std::uint32_t bits = 0;  ///< of a literal: FP32, but the unit's input format for a and b of block_fma, and the step's own format in arithmetic in that
  bool negated = false;
};

struct account_step {
  operation op = operation::input;
  format result = format::f32;
  rounding mode = rounding::nearest_even;
  subnormals subnormal = subnormals::kept;
  machine_unit const* unit = nullptr;  ///< of block_fma
  std::uint32_t bits = 0;              ///< the code that the step gave
  std::uint32_t first_operand = 0, operands = 0;
  quantity name = {};
  double_double exact = {};  ///< its value had no step before it rounded; of an input what it stands for, which a stored result is not
};

/// Everything one step emits: see block_fma, round_pack, sfu.
using step_events = recorder<term_aligned, block_summed, sum_shortened, block_special, rounded, special_result, interpolated, function_step>;

class account {
 public:
  /// A number of the law with a name of its own, recognised by its code: L = s·log2(e) in FP32, whose exact value is another.
  struct constant {
    std::uint32_t bits;
    std::string_view symbol;
    double_double exact;
  };

  /// @param tables  of MUFU; must outlive this
  explicit account(special_function_tables const& tables) : tables_(&tables) {}

  void name_constant(std::uint32_t f32_bits, std::string_view symbol, double_double exact);
  /// A given number; `exact` is what it stands for.
  std::int32_t input(format f, std::uint32_t bits, double_double exact, quantity name);
  /// Carries the operation out and keeps it.  @param like  op, result, mode, subnormal and unit of the step  @returns its index
  std::int32_t record(account_step like, std::span<account_operand const> operands);
  /// Another code for a step than it gave, as a capture may have it: replay() then finds what does not follow.
  void claim(std::size_t step, std::uint32_t bits) noexcept { steps_[step].bits = bits; }
  /// What a step stands for is known better than its operands tell: they overflowed, or were rounded on purpose.
  void set_exact(std::int32_t step, double_double exact) noexcept { steps_[std::size_t(step)].exact = exact; }
  /// The first name a step gets stays.
  void name(std::int32_t step, quantity q) noexcept;

  [[nodiscard]] std::span<account_step const> steps() const noexcept { return steps_; }
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  [[nodiscard]] account_step const& operator[](std::size_t i) const noexcept { return steps_[i]; }
  [[nodiscard]] std::span<account_operand const> operands(std::size_t i) const noexcept { return std::span(operands_).subspan(steps_[i].first_operand, steps_[i].operands); }
  [[nodiscard]] std::span<constant const> constants() const noexcept { return constants_; }
  /// The constant that a literal is; null where it is a plain number.
  [[nodiscard]] constant const* constant_of(account_operand const& o) const noexcept;

  /// Code of an operand of step i, as the operation takes it: in FP32, or in the formats that account_operand::bits says.
  [[nodiscard]] std::uint32_t bits_of(std::size_t i, std::size_t operand) const noexcept;
  /// Value of its code, and what it would have been; a literal that is no constant stands for itself.
  [[nodiscard]] double value_of(std::size_t i, std::size_t operand) const noexcept;
  [[nodiscard]] double_double exact_of(std::size_t i, std::size_t operand) const noexcept;
  /// Value of a step's own code.
  [[nodiscard]] double value_of(std::size_t i) const noexcept;
  /// The format whose ulp a step's errors are in: its own, but FP16 of a block whose unit gives that in FP32 codes.
  [[nodiscard]] format ulp_format(std::size_t i) const noexcept { return steps_[i].op == operation::block_fma ? steps_[i].unit->output : steps_[i].result; }
  /// (value − exact) of a step in ulp_of(it); NaN where either is not finite.
  [[nodiscard]] double error_in_ulp(std::size_t i) const noexcept;
  /// The operation on the codes it got, not rounded.
  [[nodiscard]] double_double exact_on_codes(std::size_t i) const;
  /// The error of the step's own rounding alone: value − exact_on_codes; NaN where either is not finite. In ulp: at exact_on_codes.
  [[nodiscard]] double own_error(std::size_t i) const;
  [[nodiscard]] double own_error_in_ulp(std::size_t i) const;
  /// The ulp of the step's result at its exact value; where that is 0 (or not distinguished from it by 60 bits of the value), at its value.
  [[nodiscard]] double ulp_of(std::size_t i) const noexcept;

  /// Step i once more, from its operands; its events go to `events` where given.  @returns the code
  [[nodiscard]] std::uint32_t carry_out(std::size_t i, step_events* events = nullptr) const;

  /// Only what step `result` depends on, which becomes the last step.
  [[nodiscard]] account only(std::int32_t result) const;
  /// The last step with this name.
  [[nodiscard]] std::optional<std::size_t> find(quantity q) const noexcept;
  [[nodiscard]] special_function_tables const& tables() const noexcept { return *tables_; }

 private:
  [[nodiscard]] format format_of(std::size_t i, std::size_t operand) const noexcept;
  [[nodiscard]] double_double exact_result(std::size_t i) const;

  special_function_tables const* tables_;
  std::vector<account_step> steps_;
  std::vector<account_operand> operands_;
  std::vector<constant> constants_;
};

/// Carries every step out again.  @returns the first one that gives another code than the account has; none where all agree
[[nodiscard]] std::optional<std::size_t> replay(account const& a);

}  // namespace stickybit
