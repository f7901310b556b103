#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "tensor_file/file_bytes.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
namespace fs = std::filesystem;

namespace {

using names = std::vector<std::string>;

tensor_file example(std::size_t elements = 3) {
  tensor_file file("example");
  file.add("t", tensor{dtype::f8_e4m3, {static_cast<std::int64_t>(elements)}, std::vector<std::byte>(elements, std::byte{7})});
  return file;
}

std::string save_error(tensor_file const& file, fs::path const& path) {
  return error_of([&] { file.save(path); });
}

/// No file of this process can grow beyond so many bytes: what a full disk looks like to the writer.
class file_size_limit {
 public:
  explicit file_size_limit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  file_size_limit(file_size_limit const&) = delete;
  file_size_limit& operator=(file_size_limit const&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("save: replaces a file and leaves nothing else", "[tensor_file][fast]") {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  example().save(folder / "x");
  CHECK(tensor_file::load(folder / "x") == example());
  CHECK(folder.names() == names{"x"});
}

TEST_CASE("save: writes beside a relative path, and to where a link leads", "[tensor_file][fast]") {
  const temporary_folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  example().save("here");
  fs::current_path(before);
  CHECK(tensor_file::load(folder / "here") == example());

  fs::create_directory(folder / "deep");
  write_text(folder / "deep/target", "before");
  fs::create_symlink("deep/target", folder / "link");
  example().save(folder / "link");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(tensor_file::load(folder / "deep/target") == example());
  CHECK(folder.names() == names{"deep", "here", "link"});
}

TEST_CASE("save: what is no place for a file is named and stays", "[tensor_file][fast]") {
  const temporary_folder folder;
  const std::string at = folder.path().string();
  const std::string error = ": expected a file that can be written, found an error: ";
  CHECK(save_error(example(), folder.path()) == at + ": expected a file to write, found a folder");
  CHECK(save_error(example(), folder / "none/x") == at + "/none/x" + error + "No such file or directory");
  CHECK(save_error(example(), "") == error + "No such file or directory");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(save_error(example(), folder / "pipe") == at + "/pipe: expected a file to write, found a device or a pipe");
  CHECK(save_error(example(), "/dev/null") == "/dev/null: expected a file to write, found a device or a pipe");
  CHECK(fs::is_character_file("/dev/null"));
  // Found only when the complete file is renamed.
  CHECK_THAT(save_error(example(), folder / std::string(300, 'x')), Catch::Matchers::EndsWith(error + "File name too long"));
  CHECK(folder.names() == names{"pipe"});
}

TEST_CASE("save: a full disk is an error that leaves what was there", "[tensor_file][fast]") {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  // 100 bytes show when the stream is closed, 1000000 when they are written.
  for (const std::size_t elements : {100u, 1'000'000u}) {
    std::string message;
    {
      const file_size_limit limit(64);
      message = save_error(example(elements), folder / "x");
    }
    CHECK(message == (folder / "x").string() + ": expected a file that can be written, found an error: File too large");
    CHECK(read_text(folder / "x") == "before");
    CHECK(folder.names() == names{"x"});
  }
}

TEST_CASE("save: a folder that cannot be written is an error", "[tensor_file][fast]") {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  fs::permissions(folder.path(), fs::perms(0555));
  // Permissions do not bind root, so it becomes somebody else meanwhile.
  const bool is_root = ::geteuid() == 0;
  if (is_root && ::seteuid(65534) != 0) {
    std::cout << "SKIPPED: root cannot become another user here\n";
    return;
  }
  std::string message;
  try {
    example().save(folder / "x");
  } catch (file_error const& e) {
    message = e.what();
  }
  const bool is_root_again = !is_root || ::seteuid(0) == 0;
  fs::permissions(folder.path(), fs::perms(0755));
  REQUIRE(is_root_again);
  CHECK(message == (folder / "x").string() + ": expected a file that can be written, found an error: Permission denied");
  CHECK(read_text(folder / "x") == "before");
  CHECK(folder.names() == names{"x"});
}

TEST_CASE("save: refuses what load would refuse, and touches nothing", "[tensor_file][fast]") {
  const temporary_folder folder;
  const std::string path = (folder / "x").string();
  tensor_file file = example();
  file.metadata["k"] = "\xc3";
  CHECK(save_error(file, path) == path + ": expected metadata in UTF-8, found other bytes for key 'k'");
  file.metadata = {{"\x80", ""}};
  CHECK(save_error(file, path) == path + ": expected metadata in UTF-8, found other bytes for key '\\x80'");
  file.metadata = {{"k", std::string(100'000'000, 'x')}};
  CHECK(save_error(file, path) == path + ": expected a header of at most 100000000 bytes, found 100000088");
  CHECK(folder.names().empty());
}
