#include "stickybit/tensor_file/file_error.hpp"

#include <fmt/format.h>

#include "printable.hpp"

namespace stickybit {

namespace {

constexpr std::size_t max_path_bytes = 256;
constexpr std::size_t max_name_bytes = 96;
constexpr std::size_t max_text_bytes = 256;

std::string difference(std::string_view expected, std::string_view found) {
  return fmt::format("expected {}, found {}", detail::printable(expected, max_text_bytes), detail::printable(found, max_text_bytes));
}

}  // namespace

file_error::file_error(std::string_view file, std::string_view expected, std::string_view found)
    : std::runtime_error(fmt::format("{}: {}", detail::printable_tail(file, max_path_bytes), difference(expected, found))) {}

file_error::file_error(std::string_view file, std::string_view tensor, std::string_view expected, std::string_view found)
    : std::runtime_error(fmt::format("{}: tensor '{}': {}", detail::printable_tail(file, max_path_bytes),
                                     detail::printable(tensor, max_name_bytes), difference(expected, found))) {}

}  // namespace stickybit
