// A regular file opened for reading at offsets: large binary files are never
// held whole.
#ifndef SHARDC_SOURCE_INPUT_FILE_H_
#define SHARDC_SOURCE_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "source/finding.h"

namespace shardc {

class InputFile {
 public:
  // Findings: missing, unreadable, not-regular. FIFOs and devices are
  // refused without blocking on them.
  static std::optional<InputFile> Open(const std::string& path,
                                       Findings& findings);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  int64_t size() const { return size_; }  // when it was opened

  // Exactly `count` bytes, or a finding (`unreadable`).
  bool ReadAt(int64_t offset, char* out, size_t count,
              Findings& findings) const;
  // At most `count` bytes from the beginning: fewer in a shorter file.
  std::optional<std::string> Head(size_t count, Findings& findings) const;

 private:
  InputFile() = default;
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_INPUT_FILE_H_
