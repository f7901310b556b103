#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "byte_source.hpp"
#include "header.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

namespace {

/// Length of the JSON, checked against the file.
std::size_t header_bytes(detail::byte_source const& source, std::string const& file) {
  if (source.size == 0) throw file_error(file, "a safetensors file", "an empty file");
  if (source.size < detail::length_field_bytes)
    throw file_error(file, "a safetensors file of at least 8 bytes", fmt::format("{}", source.size));
  std::array<std::byte, detail::length_field_bytes> field{};
  source.read(0, field);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < field.size(); ++i) length |= std::to_integer<std::uint64_t>(field[i]) << (8 * i);
  if (length > detail::max_header_bytes)
    throw file_error(file, fmt::format("a header of at most {} bytes", detail::max_header_bytes), fmt::format("{}", length));
  if (length > source.size - field.size())
    throw file_error(file, fmt::format("a header of {} bytes, as the file begins by saying", length),
                     fmt::format("{} bytes after that", source.size - field.size()));
  return static_cast<std::size_t>(length);
}

detail::byte_source memory_source(std::span<std::byte const> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> into) {
            std::ranges::copy(bytes.subspan(static_cast<std::size_t>(offset), into.size()), into.begin());
          }};
}

[[noreturn]] void cannot_read(std::string const& file, std::error_code reason) {
  throw file_error(file, "a file that can be read", fmt::format("an error: {}", reason.message()));
}

}  // namespace

tensor_file tensor_file::read(detail::byte_source const& source, std::string name) {
  const std::size_t json_bytes = header_bytes(source, name);
  std::string json(json_bytes, '\0');
  source.read(detail::length_field_bytes, std::as_writable_bytes(std::span(json)));
  const std::uint64_t data_begin = detail::length_field_bytes + json_bytes;
  detail::file_header header = detail::read_header(json, name);
  // Nothing below allocates more than the file has: every size was compared with it.
  detail::check_layout(header, source.size - data_begin, name);

  tensor_file file(std::move(name));
  file.metadata = std::move(header.metadata);
  for (auto& e : header.entries) {
    if (!e.type.readable) {
      file.index_.emplace(e.name, left_unread);
      file.unread_.push_back({std::move(e.name), std::string(e.type.name), std::move(e.shape)});
      continue;
    }
    tensor value{*e.type.readable, std::move(e.shape), std::vector<std::byte>(static_cast<std::size_t>(e.end - e.begin))};
    if (!value.bytes.empty()) source.read(data_begin + e.begin, value.bytes);
    file.add(std::move(e.name), std::move(value));
  }
  return file;
}

tensor_file tensor_file::parse(std::span<std::byte const> bytes, std::string name) {
  return read(memory_source(bytes), std::move(name));
}

tensor_file tensor_file::load(std::filesystem::path const& path) {
  namespace fs = std::filesystem;
  std::string name = path.string();
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) throw file_error(name, "a safetensors file", "no such file");
  if (status.type() == fs::file_type::none) cannot_read(name, failed);
  if (fs::is_directory(status)) throw file_error(name, "a safetensors file", "a folder");
  if (!fs::is_regular_file(status)) throw file_error(name, "a safetensors file", "a device or a pipe");
  const std::uint64_t size = fs::file_size(path, failed);
  if (failed) cannot_read(name, failed);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(name, {errno, std::generic_category()});

  return read({size,
               [&](std::uint64_t offset, std::span<std::byte> into) {
                 stream.seekg(static_cast<std::streamoff>(offset));
                 stream.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
                 if (!stream) throw file_error(name, fmt::format("{} bytes at byte {}", into.size(), offset), "fewer while reading");
               }},
              name);
}

}  // namespace stickybit
