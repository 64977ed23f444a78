// A regular file opened for reading at offsets, for binary files too large to
// hold in memory.
#ifndef SHARDC_SOURCE_INPUT_FILE_H_
#define SHARDC_SOURCE_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

class InputFile {
 public:
  // Opens the file. Directories, FIFOs and devices are refused without
  // blocking. On failure, adds the error missing, unreadable or not-regular to
  // `findings` and returns nullopt.
  static std::optional<InputFile> Open(const std::string& path,
                                       Findings& findings);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  int64_t size() const { return size_; }  // in bytes, when the file was opened

  // Reads exactly `count` bytes. On failure, adds the error `unreadable` to
  // `findings` and returns false.
  bool ReadAt(int64_t offset, char* out, size_t count,
              Findings& findings) const;
  // Returns the first `count` bytes, or all bytes of a shorter file. On
  // failure, adds the error `unreadable` to `findings` and returns nullopt.
  std::optional<std::string> Head(size_t count, Findings& findings) const;

 private:
  InputFile() = default;
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// Returns the number that consists of all bytes in `bytes`, at most 8.
constexpr uint64_t LittleEndian(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    out = out << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return out;
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_INPUT_FILE_H_
