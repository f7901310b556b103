#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tensor_file/file_bytes.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;

namespace {

std::string load_error(std::filesystem::path const& path) {
  return error_of([&] { (void)tensor_file::load(path); });
}

}  // namespace

TEST_CASE("load: what is no readable file is named", "[tensor_file][fast]") {
  const temporary_folder folder;
  const std::string at = folder.path().string();
  CHECK(load_error(folder / "none") == at + "/none: expected a safetensors file, found no such file");
  CHECK(load_error(folder / "none/x") == at + "/none/x: expected a safetensors file, found no such file");
  CHECK(load_error(folder.path()) == at + ": expected a safetensors file, found a folder");
  CHECK(load_error("") == ": expected a safetensors file, found no such file");
  CHECK(load_error("/dev/null") == "/dev/null: expected a safetensors file, found a device or a pipe");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(load_error(folder / "pipe") == at + "/pipe: expected a safetensors file, found a device or a pipe");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(load_error(folder / "loop") ==
        at + "/loop: expected a file that can be read, found an error: Too many levels of symbolic links");
  CHECK_THAT(load_error(folder / std::string(300, 'x')),
             Catch::Matchers::EndsWith(": expected a file that can be read, found an error: File name too long"));
}

TEST_CASE("load: finds the faults that parse finds", "[tensor_file][fast]") {
  const temporary_folder folder;
  const auto error_for = [&](std::string const& text) {
    write_text(folder / "f", text);
    const std::string message = load_error(folder / "f");
    const std::string prefix = (folder / "f").string() + ": ";
    CHECK_THAT(message, Catch::Matchers::StartsWith(prefix));
    return message.substr(prefix.size());
  };
  CHECK(error_for("") == "expected a safetensors file, found an empty file");
  CHECK(error_for("1234567") == "expected a safetensors file of at least 8 bytes, found 7");
  CHECK(error_for(length_field(3) + "{}") == "expected a header of 3 bytes, as the file begins by saying, found 2 bytes after that");
  CHECK(error_for(file_text("[]")) == "expected a header that begins with '{', found '['");
  CHECK(error_for(file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9)) ==
        "expected 8 bytes of data, as the header says, found 9");
  CHECK(error_for(file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7)) ==
        "tensor 'a': expected data_offsets within the 7 bytes of data, found [0, 8]");
}

TEST_CASE("load: a path in a message is one line, cut at its beginning", "[tensor_file][fast]") {
  CHECK(load_error("a\nb\x1b[0m\xff") == "a\\u{a}b\\u{1b}[0m\\xff: expected a safetensors file, found no such file");
  CHECK(load_error("x/" + std::string(126, 'y') + "/" + std::string(200, 'z')) ==
        "..." + std::string(52, 'y') + "/" + std::string(200, 'z') + ": expected a safetensors file, found no such file");
  // No character is cut in two.
  std::string accents;
  for (int i = 0; i < 200; ++i) accents += "é";
  std::string kept;
  for (int i = 0; i < 126; ++i) kept += "é";
  CHECK(error_of([&] { (void)tensor_file::parse({}, accents); }) == "..." + kept + ": expected a safetensors file, found an empty file");
}

TEST_CASE("load: data beyond 2 GiB is reached, and only what is read takes memory", "[tensor_file][fast]") {
  // A sparse file: an I64 tensor of 3 GiB that is left unread, then one float.
  const temporary_folder folder;
  const std::string json =
      R"({"big":{"dtype":"I64","shape":[402653184],"data_offsets":[0,3221225472]},)"
      R"("last":{"dtype":"F32","shape":[1],"data_offsets":[3221225472,3221225476]}})";
  const auto path = folder / "sparse";
  write_text(path, file_text(json));
  std::filesystem::resize_file(path, 8 + json.size() + 3221225472u);
  std::ofstream(path, std::ios::binary | std::ios::app) << "wxyz";
  const tensor_file file = tensor_file::load(path);
  CHECK(file.require("last", dtype::f32, {1}).bytes == as_bytes("wxyz"));
  CHECK(file.unread().size() == 1);
}
