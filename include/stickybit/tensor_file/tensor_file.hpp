#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stickybit/tensor_file/dtype.hpp"
#include "stickybit/tensor_file/file_error.hpp"
#include "stickybit/tensor_file/tensor.hpp"

namespace stickybit {

namespace detail {
struct byte_source;
}

struct named_tensor {
  std::string name;
  tensor value;

  friend bool operator==(named_tensor const&, named_tensor const&) = default;
};

/// A tensor of a safetensors type that is no dtype here (I64, BOOL, ...): its place in the file was checked, its data left there.
struct unread_tensor {
  std::string name;
  std::string type_name;
  std::vector<std::int64_t> shape;

  friend bool operator==(unread_tensor const&, unread_tensor const&) = default;
};

/// The content of a safetensors file: 8 bytes N, little-endian; N bytes of JSON that describe the tensors; their data.
/// A file is read whole or not at all, and every fault of it is a file_error. Stricter than the format: a tensor's entry has
/// no keys but dtype, shape and data_offsets, no key stands twice, and a tensor's name is not empty.
/// @source github.com/huggingface/safetensors README "Format"; 000a16f safetensors/src/tensor.rs (limit, dtypes, holes)
class tensor_file {
 public:
  /// No tensors. `name` is what messages call the file.
  explicit tensor_file(std::string name = "new file") : name_(std::move(name)) {}

  /// @throws file_error
  [[nodiscard]] static tensor_file load(std::filesystem::path const& path);
  [[nodiscard]] static tensor_file parse(std::span<std::byte const> bytes, std::string name);

  /// Writes the file, or throws and leaves what was at `path`. Equal content gives equal bytes: metadata by key, tensors in
  /// their order, data without gaps from a multiple of 8 bytes on. What is at `path` is replaced only if it is a regular file.
  /// @throws file_error where it cannot be written, a text is not UTF-8, or a tensor was left unread: writing would lose it
  void save(std::filesystem::path const& path) const;
  /// The bytes that save writes.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;

  /// Text by key, both UTF-8.
  std::map<std::string, std::string> metadata;

  /// In the order of the file's header; a saved file's data has it too.
  [[nodiscard]] std::vector<named_tensor> const& tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::vector<unread_tensor> const& unread() const noexcept { return unread_; }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// Appends a tensor.
  /// @throws file_error where the name is empty, `__metadata__`, taken or not UTF-8, the shape has no element count, or the
  ///         number of bytes is not that of the shape
  void add(std::string name, tensor value);

  /// Null where there is none, or it was left unread.
  [[nodiscard]] tensor const* find(std::string_view name) const noexcept;

  /// The tensor, of this type and, where given, this rank or shape (sizes may be any_size).
  /// @throws file_error where it is missing or another
  [[nodiscard]] tensor const& require(std::string_view name, dtype type) const;
  [[nodiscard]] tensor const& require(std::string_view name, dtype type, std::vector<std::int64_t> const& shape) const;
  // A template, so that {64} is a shape and never a rank.
  [[nodiscard]] tensor const& require(std::string_view name, dtype type, std::integral auto rank) const {
    return require(name, type, std::vector<std::int64_t>(static_cast<std::size_t>(rank), any_size));
  }

  /// Same metadata and tensors, in the same order; the files' names do not matter.
  friend bool operator==(tensor_file const& a, tensor_file const& b) {
    return a.metadata == b.metadata && a.tensors_ == b.tensors_ && a.unread_ == b.unread_;
  }

 private:
  [[nodiscard]] static tensor_file read(detail::byte_source const& source, std::string name);
  /// The first 8 bytes and the JSON, padded. `file` is what messages call the file.
  [[nodiscard]] std::string encoded_header(std::string_view file) const;
  [[nodiscard]] tensor const& require_present(std::string_view name, std::string_view expected) const;

  std::string name_;
  std::vector<named_tensor> tensors_;
  std::vector<unread_tensor> unread_;
  /// Place in tensors_, or left_unread.
  std::map<std::string, std::size_t, std::less<>> index_;
  static constexpr std::size_t left_unread = static_cast<std::size_t>(-1);
};

}  // namespace stickybit
