#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "header.hpp"
#include "printable.hpp"
#include "stickybit/tensor_file/file_error.hpp"

namespace stickybit::detail {

namespace {

using json = nlohmann::json;

/// What the parser stands before. The format's grammar has no recursion, so this is all the state there is, and a value that
/// nests deeper than an entry's lists is refused where it begins.
enum class place { whole, top, metadata, metadata_map, metadata_text, entry, entry_map, type, shape, shape_list, offsets, offset_list };

constexpr std::string_view expected_at(place p) noexcept {
  switch (p) {
    case place::whole: return "a JSON object";
    case place::top: return "a tensor's name";
    case place::metadata: return "an object of strings in __metadata__";
    case place::metadata_map: return "a key in __metadata__";
    case place::metadata_text: return "only strings in __metadata__";
    case place::entry: return "an object with dtype, shape and data_offsets";
    case place::entry_map: return "a key of the tensor's entry";
    case place::type: return "a string as dtype";
    case place::shape: return "a list of sizes as shape";
    case place::shape_list: return "integer sizes from 0 to 2^63 - 1 in shape";
    case place::offsets: return "a list of two integers as data_offsets";
    case place::offset_list: return "two integers from 0 to 2^64 - 1 in data_offsets";
  }
  return {};
}

/// Takes the parser's events (nlohmann's SAX interface), refuses the first that does not fit, and builds the header.
class header_builder {
 public:
  explicit header_builder(std::string_view file) : file_(file) {}

  [[nodiscard]] file_header take() && { return std::move(header_); }

  bool null() { fail(expected_at(place_), "null"); }
  bool boolean(bool value) { fail(expected_at(place_), value ? "true" : "false"); }
  // Negative: the parser gives every other integer to number_unsigned, except -0.
  bool number_integer(json::number_integer_t value) { fail(expected_at(place_), value == 0 ? "-0" : std::to_string(value)); }
  // Also an integer that has more than 64 bits.
  bool number_float(json::number_float_t, std::string const& text) { fail(expected_at(place_), printable(text, 40)); }
  bool binary(json::binary_t&) { fail(expected_at(place_), "binary data"); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (place_ == place::shape_list && value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    else if (place_ == place::offset_list && offsets_++ < 2)
      (offsets_ == 1 ? entry_.begin : entry_.end) = value;
    else
      fail(expected_at(place_), place_ == place::offset_list ? "more" : std::to_string(value));
    return true;
  }

  bool string(std::string& text) {
    if (place_ == place::metadata_text) {
      header_.metadata[key_] = std::move(text);
      place_ = place::metadata_map;
    } else if (place_ == place::type) {
      const auto type = find_stored_type(text);
      if (!type) fail("a dtype of the format, such as BF16 or F32", quoted(text));
      entry_.type = *type;
      place_ = place::entry_map;
    } else {
      fail(expected_at(place_), fmt::format("the string {}", quoted(text)));
    }
    return true;
  }

  bool start_object(std::size_t) {
    switch (place_) {
      case place::whole: place_ = place::top; return true;
      case place::metadata: place_ = place::metadata_map; return true;
      case place::entry: place_ = place::entry_map; return true;
      default: fail(expected_at(place_), "an object");
    }
  }

  bool end_object() {
    if (place_ == place::entry_map) finish_entry();
    place_ = place_ == place::top ? place::whole : place::top;
    return true;
  }

  bool start_array(std::size_t) {
    switch (place_) {
      case place::shape: place_ = place::shape_list; return true;
      case place::offsets: place_ = place::offset_list; return true;
      default: fail(expected_at(place_), "a list");
    }
  }

  bool end_array() {
    if (place_ == place::offset_list && offsets_ != 2) fail(expected_at(place_), fmt::format("only {}", offsets_));
    place_ = place::entry_map;
    return true;
  }

  bool key(std::string& text) {
    switch (place_) {
      case place::top: top_key(text); return true;
      case place::metadata_map: metadata_map_key(text); return true;
      default: entry_key(text); return true;
    }
  }

  bool parse_error(std::size_t position, std::string const&, json::exception const& error) {
    std::string_view reason = error.what();
    if (const auto end_of_id = reason.find("] "); end_of_id != std::string_view::npos) reason.remove_prefix(end_of_id + 2);
    throw file_error(file_, "a header in JSON", fmt::format("at its byte {}: {}", position, reason));
  }

 private:
  static std::string quoted(std::string_view text) { return fmt::format("'{}'", printable(text, 60)); }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    switch (place_) {
      case place::whole: case place::top: case place::metadata: case place::metadata_map: throw file_error(file_, expected, found);
      case place::metadata_text: throw file_error(file_, expected, fmt::format("{} for key {}", found, quoted(key_)));
      default: throw file_error(file_, entry_.name, expected, found);
    }
  }

  void top_key(std::string& text) {
    if (text.empty()) fail("tensor names that are not empty", "''");
    if (!names_.insert(text).second) fail("each name once", fmt::format("{} twice", quoted(text)));
    place_ = text == metadata_key ? place::metadata : place::entry;
    if (place_ == place::metadata) return;
    entry_ = header_entry{.name = std::move(text), .type = {}, .shape = {}, .begin = 0, .end = 0};
    has_type_ = has_shape_ = has_offsets_ = false;
    offsets_ = 0;
  }

  void metadata_map_key(std::string& text) {
    if (header_.metadata.contains(text)) fail("each key of __metadata__ once", fmt::format("{} twice", quoted(text)));
    key_ = std::move(text);
    place_ = place::metadata_text;
  }

  void entry_key(std::string const& text) {
    const auto enter = [&](bool& seen, place value) {
      if (std::exchange(seen, true)) fail("each key once", fmt::format("{} twice", quoted(text)));
      place_ = value;
    };
    if (text == "dtype") enter(has_type_, place::type);
    else if (text == "shape") enter(has_shape_, place::shape);
    else if (text == "data_offsets") enter(has_offsets_, place::offsets);
    else fail("only the keys dtype, shape and data_offsets", quoted(text));
  }

  void finish_entry() {
    const std::string_view missing = !has_type_ ? "dtype" : !has_shape_ ? "shape" : !has_offsets_ ? "data_offsets" : "";
    if (!missing.empty()) fail("the keys dtype, shape and data_offsets", fmt::format("no {}", missing));
    header_.entries.push_back(std::move(entry_));
  }

  std::string_view file_;
  file_header header_;
  std::unordered_set<std::string> names_;
  place place_ = place::whole;
  std::string key_;
  header_entry entry_;
  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  int offsets_ = 0;
};

}  // namespace

file_header read_header(std::string_view text, std::string_view file) {
  if (text.empty()) throw file_error(file, "a header that begins with '{'", "an empty header");
  if (text[0] != '{') throw file_error(file, "a header that begins with '{'", fmt::format("'{}'", printable(text.substr(0, 1), 16)));
  if (const auto at = find_invalid_utf8(text); at != std::string_view::npos)
    throw file_error(file, "a header in UTF-8", fmt::format("the byte {:#04x} at its byte {}", static_cast<unsigned char>(text[at]), at));
  // The parser takes a zero byte for the end of the text and would not look behind it.
  if (const auto at = text.find('\0'); at != std::string_view::npos)
    throw file_error(file, "a header in JSON", fmt::format("a zero byte at its byte {}", at));
  header_builder builder(file);
  json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).take();
}

}  // namespace stickybit::detail
