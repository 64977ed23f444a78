// A temporary folder, removed with its contents at the end of a test.
#ifndef SHARDC_TESTS_TEMPORARY_FOLDER_H_
#define SHARDC_TESTS_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

namespace shardc {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(
      const std::filesystem::path& in = std::filesystem::temp_directory_path())
      : path_(in / "shardc_XXXXXX") {
    std::string name = path_.string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const {
    return (path_ / name).string();
  }
  // Writes a file, and makes the folders that its path needs. Returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  std::string Read(std::string_view name) const {
    std::ostringstream out;
    out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return out.str();
  }
  // Returns the number of entries directly in the folder.
  size_t Count() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_),
                      std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace shardc

#endif  // SHARDC_TESTS_TEMPORARY_FOLDER_H_
