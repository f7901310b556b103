#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "sections.hpp"

namespace stickybit {
namespace {

std::vector<public_report> in_order() {
  std::vector<public_report> all;
  for (auto section : {detail::attention_output_reports(), detail::attention_weight_reports(), detail::gradient_reports(), detail::mask_reports(), detail::sum_reports(),
                       detail::tensor_core_reports(), detail::conversion_reports(), detail::exponential_reports()})
    all.insert(all.end(), section.begin(), section.end());
  std::sort(all.begin(), all.end(), [](public_report const& a, public_report const& b) { return a.number < b.number; });
  return all;
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = char(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

/// At the beginning of a word of the text: "nan" is in "a NaN", not in "dominant".
bool begins_a_word(std::string_view text, std::string const& word) {
  const std::string low = lower(text);
  for (std::size_t at = low.find(word); at != low.npos; at = low.find(word, at + 1))
    if (at == 0 || std::isalnum(static_cast<unsigned char>(low[at - 1])) == 0) return true;
  return false;
}

bool mentions(public_report const& r, std::string const& word) {
  const auto holds = [&](std::string_view text) { return begins_a_word(text, word); };
  return holds(r.id) || holds(r.symptom) || std::any_of(r.addresses.begin(), r.addresses.end(), holds);
}

/// Letters to change, leave out or put in to make one of the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The smallest distance of the text to the id or to one of its words.
std::size_t distance_to(public_report const& r, std::string const& text) {
  std::size_t least = edit_distance(text, r.id);
  for (std::size_t begin = 0; begin < r.id.size();) {
    const std::size_t end = std::min(r.id.find('-', begin), r.id.size());
    least = std::min(least, edit_distance(text, r.id.substr(begin, end - begin)));
    begin = end + 1;
  }
  return least;
}

std::string near_ones(std::string const& text) {
  std::vector<public_report const*> all;
  for (public_report const& r : all_reports()) all.push_back(&r);
  std::stable_sort(all.begin(), all.end(), [&](auto const* a, auto const* b) { return distance_to(*a, text) < distance_to(*b, text); });
  return fmt::format("{}, {}, {}", all[0]->id, all[1]->id, all[2]->id);
}

}  // namespace

std::string_view name_of(accuracy a) noexcept {
  switch (a) {
    case accuracy::exact:
      return "exact";
    case accuracy::nearest:
      return "nearest";
    case accuracy::neighbour:
      return "neighbour";
    case accuracy::close:
      return "close";
    case accuracy::wrong:
      return "wrong";
    case accuracy::open:
      return "open";
  }
  return {};
}

std::span<public_report const> all_reports() {
  static const std::vector<public_report> all = in_order();
  return all;
}

std::vector<report_finding> run(public_report const& report) { return report.compute(); }

std::vector<public_report const*> matching_reports(std::string_view text) {
  const std::string word = lower(text);
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = error == std::errc{} && end == word.data() + word.size();
  std::vector<public_report const*> found;
  for (public_report const& r : all_reports())
    if (is_number ? r.number == number : r.id == word) return {&r};
  const auto is_thread = [&](std::string_view address) { return address.substr(address.rfind('/') + 1) == word; };
  for (public_report const& r : all_reports())
    if (is_number ? std::any_of(r.addresses.begin(), r.addresses.end(), is_thread) : !word.empty() && mentions(r, word)) found.push_back(&r);
  if (found.empty()) throw unknown_report(fmt::format("no report '{}': expected a number, an id or a word of one; near: {}", text, near_ones(word)));
  return found;
}

report_headline headline_of(std::span<report_finding const> findings) {
  if (findings.empty() || findings[0].results.empty()) return {};
  std::vector<report_result> const& results = findings[0].results;
  const auto wrong = std::find_if(results.begin(), results.end(), [](report_result const& r) { return r.judged == accuracy::wrong; });
  return {(wrong == results.end() ? results.begin() : wrong)->value, findings[0].right};
}

}  // namespace stickybit
