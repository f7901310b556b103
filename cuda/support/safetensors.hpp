#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace stickybit::gpu {

/// Writes a .safetensors file: 8 bytes length of the header, header (JSON, padded to 8 bytes), data. Host: little-endian.
/// @source github.com/huggingface/safetensors README, "Format"
class safetensors_writer {
 public:
  void metadata(std::string name, std::string value) { metadata_.emplace_back(std::move(name), std::move(value)); }

  /// @param dtype as safetensors spells it ("BF16", "F32"); its width must be that of T
  template <class T>
  void tensor(std::string const& name, std::string const& dtype, std::vector<std::size_t> const& shape, std::span<T const> elements) {
    std::string dimensions;
    for (std::size_t extent : shape) dimensions += (dimensions.empty() ? "" : ",") + std::to_string(extent);
    const std::size_t begin = data_.size();
    const auto bytes = std::as_bytes(elements);
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    entries_ += "," + quoted(name) + R"(:{"dtype":)" + quoted(dtype) + R"(,"shape":[)" + dimensions + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
                std::to_string(data_.size()) + "]}";
  }

  /// @throws std::runtime_error naming the file
  void write(std::string const& path) const {
    std::string header = R"({"__metadata__":{)";
    for (auto const& [name, value] : metadata_) header += (header.back() == '{' ? "" : ",") + quoted(name) + ":" + quoted(value);
    header += "}" + entries_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<char const*>(&length), sizeof length);
    file.write(header.data(), std::streamsize(header.size()));
    file.write(reinterpret_cast<char const*>(data_.data()), std::streamsize(data_.size()));
    file.close();
    if (!file) throw std::runtime_error(path + ": cannot write");
  }

 private:
  static std::string quoted(std::string const& text) {
    std::string result = "\"";
    for (char c : text) {
      char escaped[8];
      if (c == '"' || c == '\\') (result += '\\') += c;
      else if (static_cast<unsigned char>(c) < 0x20) result.append(escaped, std::size_t(std::snprintf(escaped, sizeof escaped, "\\u%04x", c)));
      else result += c;
    }
    return result += '"';
  }

  std::vector<std::pair<std::string, std::string>> metadata_;
  std::string entries_;
  std::vector<std::byte> data_;
};

}  // namespace stickybit::gpu
