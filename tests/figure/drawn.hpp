#pragma once
// What every picture owes: laws that the tests check of each scene.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// Why the text is no well-formed XML, "" if it is: tags match, attributes are quoted and differ, & and < only as XML has them, no
/// character that XML forbids. Enough for what to_svg writes; no DTD, no CDATA.
inline std::string xml_fault(std::string const& xml) {
  std::vector<std::string> open;
  std::size_t i = 0, roots = 0;
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_'; };
  const auto entity_ends = [&](std::size_t at) {
    for (std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
      if (xml.compare(at, known.size(), known) == 0) return true;
    return false;
  };
  if (xml.starts_with("<?xml")) i = xml.find("?>") + 2;
  for (; i < xml.size(); ++i) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\n' && c != '\t') return fmt::format("control character {:#x}", c);
    if (xml[i] == '&' && !entity_ends(i)) return "bare & in text";
    if (xml[i] != '<') continue;
    const bool closing = xml[++i] == '/';
    if (closing) ++i;
    std::string name;
    while (i < xml.size() && is_name(xml[i])) name += xml[i++];
    if (name.empty()) return "bare < in text";
    std::vector<std::string> seen;
    while (i < xml.size() && xml[i] != '>' && xml[i] != '/') {
      if (std::isspace(static_cast<unsigned char>(xml[i])) != 0) { ++i; continue; }
      std::string attribute;
      while (i < xml.size() && is_name(xml[i])) attribute += xml[i++];
      if (attribute.empty() || xml.compare(i, 2, "=\"") != 0) return fmt::format("attribute '{}' of {}", attribute, name);
      if (std::find(seen.begin(), seen.end(), attribute) != seen.end()) return fmt::format("attribute {} twice", attribute);
      seen.push_back(attribute);
      for (i += 2; i < xml.size() && xml[i] != '"'; ++i)
        if (xml[i] == '<' || (xml[i] == '&' && !entity_ends(i)) || static_cast<unsigned char>(xml[i]) < 0x20) return fmt::format("value of {}", attribute);
      ++i;
    }
    const bool empty = i < xml.size() && xml[i] == '/';
    if (empty) ++i;
    if (i >= xml.size()) return "ends in a tag";
    if (closing) {
      if (open.empty() || open.back() != name) return fmt::format("</{}> closes nothing", name);
      open.pop_back();
    } else {
      if (open.empty()) ++roots;
      if (!empty) open.push_back(name);
    }
  }
  if (!open.empty()) return fmt::format("<{}> is not closed", open.back());
  return roots == 1 ? "" : fmt::format("{} roots", roots);
}

/// The parts that leave the picture, in words.
inline std::vector<std::string> outside(scene const& s) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < s.parts.size(); ++i) {
    const box b = extent(s.parts[i]);
    if (b.left < -0.01 || b.top < -0.01 || b.right > s.width + 0.01 || b.bottom > s.height + 0.01) {
      auto const* t = std::get_if<text>(&s.parts[i]);
      found.push_back(fmt::format("{}: part {} {} [{} {} {} {}]", s.title, i, t != nullptr ? t->words : "", b.left, b.top, b.right, b.bottom));
    }
  }
  return found;
}

/// Pairs of texts that meet, in words; widths are estimated from above.
inline std::vector<std::string> overlapping_texts(scene const& s) {
  std::vector<text const*> texts;
  for (primitive const& p : s.parts)
    if (auto const* t = std::get_if<text>(&p)) texts.push_back(t);
  std::vector<std::string> found;
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const box a = extent(*texts[i]), b = extent(*texts[j]);
      const double across = std::min(a.right, b.right) - std::max(a.left, b.left), down = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
      if (across > 1 && down > 3) found.push_back(fmt::format("{}: '{}' and '{}'", s.title, texts[i]->words, texts[j]->words));
    }
  return found;
}

/// Every text of the picture, one a line.
inline std::string words_of(scene const& s) {
  std::string words;
  for (primitive const& p : s.parts)
    if (auto const* t = std::get_if<text>(&p)) words += t->words + "\n";
  return words;
}

template <class Part>
std::vector<Part> parts_of(scene const& s) {
  std::vector<Part> found;
  for (primitive const& p : s.parts)
    if (auto const* part = std::get_if<Part>(&p)) found.push_back(*part);
  return found;
}

}  // namespace stickybit::figure
