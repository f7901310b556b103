#pragma once
#include <optional>
#include <string>

#include "stickybit/bias/tensor_attribution.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/explain/error_map.hpp"
#include "stickybit/figure/page.hpp"

namespace stickybit {

/// An account as a page: its result on the number line, where its error comes from, its largest tensor-core loss bit by bit, its weightiest
/// steps in full.
/// @param title    "explain add …"
/// @param footer   who made it, of what
[[nodiscard]] figure::page account_page(account const& a, std::string const& title, std::string const& footer);

/// What is known of the whole head or tensor beside the element.
struct element_surroundings {
  std::optional<error_map> map = {};                   ///< of the element's head
  std::optional<tensor_attribution> attribution = {};  ///< of the element's tensor
  std::string footer = {};
};

/// An element of attention as a page: the same, and the row's life, the keys that matter, the head's errors, the tensor's rounding points.
[[nodiscard]] figure::page element_page(told_element const& e, element_surroundings const& around);

/// The parts of a tensor's mean error by rounding point, each with its own root mean square; the mean at the end.
/// @param label  "O"
[[nodiscard]] figure::scene attribution_picture(tensor_attribution const& attribution, std::string const& label);

}  // namespace stickybit
