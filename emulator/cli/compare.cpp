#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "stickybit/bias/compare.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::cli {
namespace {

struct selected_tensor {
  std::string key;  ///< what it is called on the other side too
  tensor const* value;
};

/// FILE, FILE:tensor or FILE:prefix.
struct selection {
  tensor_file file;
  std::vector<selected_tensor> tensors;
  bool single = false;  ///< one tensor was named: it meets whatever the other side named
};

selection select(std::string const& argument) {
  std::string path = argument, name;
  const std::size_t colon = argument.rfind(':');
  if (!std::filesystem::exists(argument) && colon != argument.npos) {
    path = argument.substr(0, colon);
    name = argument.substr(colon + 1);
  }
  selection s{tensor_file::load(path), {}, false};
  if (name.empty() && path != argument) throw std::invalid_argument(fmt::format("'{}': expected a tensor or a prefix after ':'", argument));
  if (name.empty()) {
    for (named_tensor const& t : s.file.tensors()) s.tensors.push_back({t.name, &t.value});
  } else if (tensor const* exact = s.file.find(name)) {
    s.tensors.push_back({name, exact});
    s.single = true;
  } else {
    for (named_tensor const& t : s.file.tensors())
      if (t.name.starts_with(name + ".")) s.tensors.push_back({t.name.substr(name.size() + 1), &t.value});
  }
  if (s.tensors.empty()) throw file_error(path, name.empty() ? "at least one tensor" : fmt::format("a tensor or a prefix '{}'", name), "none");
  return s;
}

void print_difference(comparison const& c, tensor const& left) {
  fmt::print("  first at {}: {} against {}\n", position_text(left.shape, c.first->index), code_text(left.type, c.first->left), code_text(left.type, c.first->right));
  fmt::print("  ulps, left - right:");
  for (auto const& [distance, count] : c.ulp_histogram)
    fmt::print(" {:+}{}: {}", distance, distance > 8 || distance < -8 ? ".." : "", count);
  if (c.nan_against_number != 0) fmt::print(" NaN against a number: {}", c.nan_against_number);
  fmt::print("\n  signs: left larger {}, right larger {}; sign test p = {:.3g}\n", c.left_larger, c.right_larger, sign_test(c.left_larger, c.right_larger));
}

int run_compare(std::string const& left_argument, std::string const& right_argument, bool nan_bits) {
  const selection left = select(left_argument), right = select(right_argument);
  std::int64_t mismatches = 0, total = 0, skipped = 0;
  const auto skip = [&](std::string const& name, std::string const& reason) {
    fmt::print("{}: skipped ({})\n", name, reason);
    ++skipped;
  };
  const auto partner_of = [&](selected_tensor const& l) -> tensor const* {
    if (left.single && right.single) return right.tensors.front().value;
    for (selected_tensor const& r : right.tensors)
      if (r.key == l.key) return r.value;
    return nullptr;
  };
  for (selected_tensor const& l : left.tensors) {
    tensor const* r = partner_of(l);
    if (r == nullptr) {
      skip(l.key, "only on the left");
      continue;
    }
    try {
      const comparison c = compare(*l.value, *r, nan_bits);
      fmt::print("{}: {} mismatches of {}\n", l.key, c.mismatches, c.total);
      if (c.mismatches != 0) print_difference(c, *l.value);
      mismatches += c.mismatches;
      total += c.total;
    } catch (std::invalid_argument const& error) {
      skip(l.key, error.what());
    }
  }
  if (!(left.single && right.single))
    for (selected_tensor const& r : right.tensors) {
      bool found = false;
      for (selected_tensor const& l : left.tensors) found |= l.key == r.key;
      if (!found) skip(r.key, "only on the right");
    }
  fmt::print("TOTAL: {} mismatches of {}\n", mismatches, total);
  return mismatches == 0 && skipped == 0 && total != 0 ? 0 : 1;
}

}  // namespace

void add_compare(CLI::App& program, int& status) {
  struct options {
    std::string left, right;
    bool nan_bits = false;
  };
  auto o = std::make_shared<options>();
  CLI::App* command = program.add_subcommand("compare", "two files, prefixes or tensors, code by code");
  command->add_option("LEFT", o->left, "FILE, FILE:tensor or FILE:prefix")->required();
  command->add_option("RIGHT", o->right, "the same")->required();
  command->add_flag("--nan-bits", o->nan_bits, "NaN must have the same sign and payload");
  command->callback([o, &status] { status = run_compare(o->left, o->right, o->nan_bits); });
}

}  // namespace stickybit::cli
