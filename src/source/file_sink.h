// Files out, whole or not at all.
#ifndef SHARDC_SOURCE_FILE_SINK_H_
#define SHARDC_SOURCE_FILE_SINK_H_

#include <array>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

// A file that is written as its bytes are made. They go to a temporary file
// beside `path`, which Commit syncs and renames: until then the old file is
// untouched, and without Commit nothing is left behind. A link stays and what
// it leads to is replaced, with its permissions. What is not a regular file (a
// terminal, a pipe) is written in place, and "-" is standard output.
class FileSink final : public Sink {
 public:
  explicit FileSink(std::string path);
  ~FileSink() override;

  // All is out, or a finding (`write`) says why not, the first that failed. A
  // reader of standard output that left early (`| head`) is nobody's error.
  // A file that these findings saw being read is not replaced (usage).
  bool Commit(Findings& findings);

 private:
  void Drain(std::string_view bytes) override;
  void OpenTemporary(unsigned mode);
  void Fail(int error);
  int Publish();

  std::string path_;       // as asked for
  std::string target_;     // the file to replace, where links lead
  std::string temporary_;  // empty where written in place
  int fd_ = -1;
  int error_ = 0;  // errno of what failed first
  std::array<char, size_t{1} << 16> buffer_;
};

// All of it at once.
bool WriteWhole(const std::string& path, std::string_view bytes,
                Findings& findings);

// Whether what stands at `path`, through links, is a file that was read; a
// finding (usage) then says so.
bool RefuseInput(const std::string& path, Findings& findings);

// Writes to a file descriptor until all is out; false with errno set.
bool WriteAll(int fd, std::string_view bytes);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_SINK_H_
