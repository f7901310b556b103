#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/identify/unit_probe.hpp"
#include "stickybit/machine/unit_file.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// Operands whose result excludes something else.
struct unit_proof {
  unit_case x;
  std::uint64_t result;        ///< the unit's
  std::string other;           ///< what is excluded
  std::uint64_t other_result;  ///< what that would give
};

/// One rule of a description.
struct unit_line {
  std::string rule, value;
  std::vector<std::string> also_fits;  ///< values that no answer excludes
  std::optional<unit_proof> proof;     ///< empty where nothing is excluded
};

struct identify_unit_options {
  std::uint64_t seed = 1;
  int verification_cases = 20000;  ///< random hard cases of the final check
  std::function<void(std::string_view stage)> report = {};
};

struct unit_identification {
  unit_formats formats;
  std::vector<std::string> known;                 ///< units of the machines that fit every answer
  std::shared_ptr<owned_unit const> description;  ///< fits every answer; empty where no description does
  std::vector<unit_line> lines;                   ///< of the description
  std::string failure;                            ///< why there is no description
  std::shared_ptr<owned_unit const> nearest;      ///< where there is none: what came nearest, if anything; not what the unit does
  std::optional<unit_proof> first_difference;     ///< from that
  bool several_nans = false;                      ///< NaN results have several codes: which one is not described
  std::int64_t probes = 0;                        ///< inner products asked for before the final check
  std::int64_t verified = 0;                      ///< inner products of the final check
};

/// Finds what a black box computes: each probe is chosen from what is known so far, and every rule that is not yet excluded is kept. A
/// description is only given if it and the unit agree on every probe and on random hard cases; NaN codes too, unless several_nans.
/// @throws unit_failure
[[nodiscard]] unit_identification identify_unit(unit_under_test& unit, identify_unit_options const& options = {});

/// What recorded inner products say: nothing can be asked.
struct recorded_identification {
  unit_formats formats;
  std::int64_t cases = 0;
  std::vector<std::string> known;        ///< units that give every recorded result
  std::int64_t points = 0, tried = 0;    ///< combinations of rules that do, of those tried
  std::vector<unit_line> lines;          ///< of the first that does; also_fits: values in others that do
};

/// @param file  a, b [n,K], d [n] and perhaps c [n]; metadata input_format and output_format as the contract's inner products have them
/// @throws file_error
[[nodiscard]] recorded_identification identify_recorded_unit(tensor_file const& file);

}  // namespace stickybit
