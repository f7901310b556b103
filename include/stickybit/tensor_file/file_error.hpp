#pragma once
#include <stdexcept>
#include <string_view>

namespace stickybit {

/// A file that cannot be read or written, or does not hold what was asked of it.
/// what() is one printable line, `FILE: tensor 'NAME': expected WHAT, found WHAT`, whatever bytes the parts hold: control
/// characters and bytes that are not UTF-8 are escaped, and long parts are cut.
class file_error : public std::runtime_error {
 public:
  file_error(std::string_view file, std::string_view expected, std::string_view found);
  file_error(std::string_view file, std::string_view tensor, std::string_view expected, std::string_view found);
};

}  // namespace stickybit
