#include "stickybit/figure/aligned_bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "axis.hpp"

namespace stickybit::figure {
namespace {

constexpr double pitch = 13, row = 20, cell_height = 16, margin = 12, sign_room = 20, gap_width = 72, top = 58;
constexpr double widest_label = 160, widest_note = 250;
constexpr int shown_below = 20, longest_gap = 3;

int lowest(bit_row const& r) { return r.top_exponent - int(r.bits.size()) + 1; }

/// One column for each power of two that a row has a bit of, highest first, and one for each long gap between them.
class columns {
 public:
  columns(std::set<int> const& exponents, double left) : end_(left) {
    int previous = 0;
    for (auto e = exponents.rbegin(); e != exponents.rend(); ++e) {
      if (e != exponents.rbegin() && previous - *e > 1) skip(previous, *e);
      put(*e);
      previous = *e;
    }
  }
  struct gap {
    double left;
    int length;
  };

  [[nodiscard]] bool has(int exponent) const { return middle_.contains(exponent); }
  [[nodiscard]] double middle(int exponent) const { return middle_.at(exponent); }
  [[nodiscard]] double left(int exponent) const { return middle(exponent) - pitch / 2; }
  [[nodiscard]] double right(int exponent) const { return middle(exponent) + pitch / 2; }
  [[nodiscard]] double end() const { return end_; }
  [[nodiscard]] std::vector<gap> const& gaps() const { return gaps_; }
  [[nodiscard]] std::map<int, double> const& all() const { return middle_; }

 private:
  void put(int exponent) {
    middle_[exponent] = end_ + pitch / 2;
    end_ += pitch;
  }
  void skip(int from, int to) {
    if (from - to - 1 <= longest_gap) {
      for (int e = from - 1; e > to; --e) put(e);
      return;
    }
    gaps_.push_back({end_, from - to - 1});
    end_ += gap_width;
  }

  std::map<int, double> middle_;
  std::vector<gap> gaps_;
  double end_;
};

std::set<int> exponents_of(aligned_bits_data const& data) {
  std::set<int> exponents{data.quantum_exponent};
  const auto add = [&](bit_row const& r) {
    for (int e = r.top_exponent; e >= lowest(r) && e >= data.quantum_exponent - shown_below; --e) exponents.insert(e);
  };
  for (bit_row const& r : data.terms) add(r);
  if (data.sum) add(*data.sum);
  if (data.result) add(*data.result);
  return exponents;
}

/// What became of a row's bits, when its maker does not say.
std::string note_of(bit_row const& r) {
  if (!r.note.empty()) return r.note;
  if (r.bits.empty()) return "0, takes no part";
  const auto kept = std::size_t(std::clamp(r.kept, 0, int(r.bits.size())));
  const auto last = r.bits.find_last_of('1');
  if (last == r.bits.npos || last < kept) return kept < r.bits.size() ? "only zeros cut" : "";
  if (kept == 0) return fmt::format("all lost; its top bit is {}", detail::power_of_two(r.top_exponent));
  const std::size_t lost = r.bits.size() - kept;
  return fmt::format("{} bit{} lost", lost, lost == 1 ? "" : "s");
}

/// Pixels that the rows' labels, or their notes, take.
template <class Words>
double column_width(aligned_bits_data const& data, double size, double widest, Words&& words) {
  double width = 48;
  const auto see = [&](bit_row const& r) { width = std::max(width, std::min(widest, text_width(words(r), size) + 1)); };
  for (bit_row const& r : data.terms) see(r);
  if (data.sum) see(*data.sum);
  if (data.result) see(*data.result);
  return width;
}

std::string label_of(bit_row const& r) { return r.label; }

class drawing {
 public:
  explicit drawing(aligned_bits_data const& data)
      : data_(data),
        label_width_(column_width(data, 12, widest_label, label_of)),
        note_width_(column_width(data, 11, widest_note, note_of)),
        at_(exponents_of(data), margin + label_width_ + sign_room) {}

  scene made() {
    picture_.title = data_.title;
    if (data_.terms.empty() && !data_.sum) return only_words();
    picture_.width = at_.end() + 14 + note_width_ + margin;
    y_ = top;
    draw_grid();
    const std::size_t cut_line = draw_cut();
    draw_terms();
    std::get<line>(picture_.parts[cut_line]).y2 = y_;
    if (data_.sum) draw_below(*data_.sum);
    if (data_.result) draw_below(*data_.result);
    if (!data_.decision.empty()) add(text{margin, y_ + 16, shortened(data_.decision, picture_.width - 2 * margin, 12), anchor::start, role::muted, 12});
    picture_.height = y_ + (data_.decision.empty() ? 6 : 28);
    stretch_grid();
    describe();
    return std::move(picture_);
  }

 private:
  /// Nothing was added: the decision alone.
  scene only_words() {
    const std::string words = data_.decision.empty() ? "no terms" : data_.decision;
    picture_.width = text_width(words, 12) + 2 * margin;
    picture_.height = 40;
    picture_.description = words;
    add(text{margin, 24, words});
    return std::move(picture_);
  }

  template <class Part>
  void add(Part part) {
    picture_.add(std::move(part));
  }

  /// Powers of two over some columns, the ends first, and a faint line under each; none where the line at the quantum stands.
  void draw_grid() {
    std::vector<int> wanted{at_.all().rbegin()->first, at_.all().begin()->first};
    for (auto const& [e, x] : at_.all())
      if (e % 4 == 0) wanted.push_back(e);
    const double cut = at_.right(data_.quantum_exponent);
    std::vector<box> taken{{cut, 0, cut, 0}};
    for (columns::gap const& g : at_.gaps()) {
      text label{g.left + gap_width / 2, top - 10, fmt::format("⋯ {} ⋯", g.length), anchor::middle, role::muted, 11};
      taken.push_back(extent(label));
      add(std::move(label));
      for (double x : {g.left + 3, g.left + gap_width - 3}) {
        add(line{x, top - 4, x, top, role::axis, 0.75, true});
        grid_.push_back(picture_.parts.size() - 1);
      }
    }
    for (int e : wanted) {
      const text label{at_.middle(e), top - 10, detail::power_of_two(e), anchor::middle, role::muted, 11};
      const box b = extent(label);
      if (std::any_of(taken.begin(), taken.end(), [&](box const& t) { return b.left < t.right + 4 && t.left < b.right + 4; })) continue;
      taken.push_back(b);
      add(label);
      add(line{label.x, top - 6, label.x, top, role::grid});
      grid_.push_back(picture_.parts.size() - 1);
    }
  }
  void stretch_grid() {
    for (std::size_t i : grid_) std::get<line>(picture_.parts[i]).y2 = y_;
  }

  void draw_cells(bit_row const& r, double y) {
    const int last = std::max(lowest(r), data_.quantum_exponent - shown_below), shown = r.top_exponent - last + 1;
    if (shown <= 0) {
      add(triangle_mark(at_.end() + 6, y + cell_height / 2, 8, 0, role::muted, note_of(r)));
      return;
    }
    const int kept = std::clamp(r.kept, 0, shown);
    const double left = at_.left(r.top_exponent), lost = left + pitch * kept;
    if (kept > 0) add(rectangle{left, y, pitch * kept, cell_height, role::kept});
    if (kept < shown) add(rectangle{lost, y, pitch * (shown - kept), cell_height, role::cut, false, note_of(r)});
    add(digits{left + pitch / 2, y + 12, pitch, r.bits.substr(0, std::size_t(shown)), role::label, 11.5});
    if (shown < int(r.bits.size())) add(triangle_mark(at_.end() + 6, y + cell_height / 2, 6, 0, role::muted, "more bits"));
  }

  void draw_note(std::string const& note) {
    if (!note.empty()) add(text{at_.end() + 14, y_ + 12, shortened(note, note_width_, 11), anchor::start, role::muted, 11});
  }

  void draw_row(bit_row const& r) {
    const std::string label = shortened(r.label, label_width_, 12);
    const std::string tooltip = !r.tooltip.empty() ? r.tooltip : label == r.label ? "" : r.label;
    add(text{margin, y_ + 12, label, anchor::start, role::label, 12, false, false, tooltip});
    if (!r.bits.empty()) {
      add(text{margin + label_width_ + 10, y_ + 13, r.negative ? "−" : "+", anchor::middle, r.negative ? role::negative : role::positive, 14, false, true});
      draw_cells(r, y_);
    }
    draw_note(note_of(r));
    y_ += row;
  }

  void draw_terms() {
    auto const& terms = data_.terms;
    for (std::size_t i = 0; i < terms.size();) {
      std::size_t end = i;
      while (end < terms.size() && terms[end].bits.empty()) ++end;
      if (end - i < 3) {
        draw_row(terms[i++]);
        continue;
      }
      add(text{margin, y_ + 12, fmt::format("⋯ {} terms", end - i), anchor::start, role::muted, 12});
      draw_note("0, take no part");
      y_ += row;
      i = end;
    }
  }

  /// The line at the quantum, to be drawn down through the terms, with its words above the columns.  @returns its index among the parts
  std::size_t draw_cut() {
    const double x = at_.right(data_.quantum_exponent);
    const bool anything_below = at_.end() > x + 1;
    add(text{x - 6, 20, fmt::format("quantum {}", detail::power_of_two(data_.quantum_exponent)), anchor::end, role::highlight, 12, false, true});
    if (anything_below) add(text{x + 6, 20, "cut off →", anchor::start, role::muted, 11});
    add(line{x, 24, x, top, role::highlight, 2});
    return picture_.parts.size() - 1;
  }

  /// The sum or the result: under a rule, cut where the final rounding cuts.
  void draw_below(bit_row const& r) {
    add(line{margin, y_ + 2, at_.end(), y_ + 2, role::axis});
    y_ += 8;
    draw_row(r);
    if (r.kept <= 0 || r.kept >= int(r.bits.size()) || !at_.has(r.top_exponent - r.kept)) return;
    const double x = at_.left(r.top_exponent) + pitch * r.kept;
    add(line{x, y_ - row - 4, x, y_ - row + cell_height + 4, role::highlight, 2});
  }

  void describe() {
    std::int64_t touched = 0, lost = 0, absent = 0;
    for (bit_row const& r : data_.terms) {
      const auto last = r.bits.find_last_of('1');
      const bool loses = last != r.bits.npos && int(last) >= r.kept;
      touched += loses && r.kept > 0;
      lost += loses && r.kept <= 0;
      absent += r.bits.empty();
    }
    picture_.description = fmt::format("{} terms aligned in columns of powers of two and cut at {}: {} lose their last bits, {} are lost as a whole, {} are zero.",
                                       data_.terms.size(), detail::power_of_two(data_.quantum_exponent), touched, lost, absent);
    if (data_.sum) picture_.description += " Below them their exact sum, and where it is rounded.";
    if (data_.result && !data_.result->note.empty()) picture_.description += fmt::format(" The result is {}.", data_.result->note);
    picture_.caption = "Each column is a power of two; hatched bits are lost.";
    if (!at_.gaps().empty()) picture_.caption += " ⋯ n ⋯ stands for n columns in which no number has a bit.";
  }

  aligned_bits_data const& data_;
  double label_width_, note_width_;
  columns at_;
  scene picture_{};
  std::vector<std::size_t> grid_;
  double y_ = 0;
};

}  // namespace

scene aligned_bits(aligned_bits_data const& data) { return drawing(data).made(); }

}  // namespace stickybit::figure
