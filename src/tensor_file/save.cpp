#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "header.hpp"
#include "printable.hpp"
#include "stickybit/tensor_file/output_file.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

namespace {

/// @pre UTF-8
std::string json_string(std::string const& text) { return nlohmann::json(text).dump(); }

std::string metadata_json(std::map<std::string, std::string> const& metadata, std::string_view file) {
  std::string json;
  for (auto const& [key, text] : metadata) {
    if (detail::find_invalid_utf8(key) != std::string::npos || detail::find_invalid_utf8(text) != std::string::npos)
      throw file_error(file, "metadata in UTF-8", fmt::format("other bytes for key '{}'", detail::printable(key, 60)));
    json += fmt::format("{}{}:{}", json.empty() ? "" : ",", json_string(key), json_string(text));
  }
  return fmt::format("{}:{{{}}}", json_string(std::string(detail::metadata_key)), json);
}

}  // namespace

std::string tensor_file::encoded_header(std::string_view file) const {
  if (!unread_.empty())
    throw file_error(file, unread_.front().name, "a dtype that can be written", unread_.front().type_name + ", left unread");
  std::string json = "{";
  if (!metadata.empty()) json += metadata_json(metadata, file);
  std::size_t offset = 0;
  for (auto const& [name, value] : tensors_) {
    if (json.size() > 1) json += ',';
    json += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(name), name_of(value.type),
                        fmt::join(value.shape, ","), offset, offset + value.bytes.size());
    offset += value.bytes.size();
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > detail::max_header_bytes)
    throw file_error(file, fmt::format("a header of at most {} bytes", detail::max_header_bytes), fmt::format("{}", json.size()));
  std::string length_field;
  for (std::size_t i = 0; i < detail::length_field_bytes; ++i)
    length_field += static_cast<char>(std::uint64_t{json.size()} >> (8 * i) & 0xff);
  return length_field + json;
}

std::vector<std::byte> tensor_file::to_bytes() const {
  const std::string header = encoded_header(name_);
  const auto header_bytes = std::as_bytes(std::span(header));
  std::vector<std::byte> bytes(header_bytes.begin(), header_bytes.end());
  for (auto const& [name, value] : tensors_) bytes.insert(bytes.end(), value.bytes.begin(), value.bytes.end());
  return bytes;
}

void tensor_file::save(std::filesystem::path const& path) const {
  const std::string header = encoded_header(path.string());
  output_file file(path);
  file.write(header);
  for (auto const& [name, value] : tensors_) file.write(value.bytes);
  file.commit();
}

}  // namespace stickybit
