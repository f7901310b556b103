#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stickybit::gpu {

/// A command line of `--name value` pairs, flags and operands.
class options {
 public:
  /// @throws std::invalid_argument for a name that is among neither `known` nor `flags`, or one of `known` without a value
  options(int argc, char** argv, std::vector<std::string_view> const& known, std::vector<std::string_view> const& flags = {}) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (!word.starts_with("--")) {
        operands_.emplace_back(word);
        continue;
      }
      if (std::find(flags.begin(), flags.end(), word.substr(2)) != flags.end()) {
        values_[std::string(word.substr(2))] = "1";
        continue;
      }
      bool is_known = false;
      for (std::string_view k : known) is_known = is_known || word.substr(2) == k;
      if (!is_known) throw std::invalid_argument("unknown option " + std::string(word));
      if (++i == argc) throw std::invalid_argument(std::string(word) + " needs a value");
      values_[std::string(word.substr(2))] = argv[i];
    }
  }

  [[nodiscard]] std::vector<std::string> const& operands() const noexcept { return operands_; }
  [[nodiscard]] bool has(std::string const& name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(std::string const& name, std::string const& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] std::uint64_t number(std::string const& name, std::uint64_t otherwise) const {
    const std::string value = text(name, std::to_string(otherwise));
    std::size_t read = 0;
    std::uint64_t result = 0;
    if (!value.empty() && value[0] != '-') try { result = std::stoull(value, &read); } catch (std::logic_error const&) { read = 0; }
    if (read == 0 || read != value.size()) throw std::invalid_argument("--" + name + " " + value + ": expected a whole number");
    return result;
  }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> operands_;
};

}  // namespace stickybit::gpu
