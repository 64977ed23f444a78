// Files out, whole or not at all.
#ifndef SHARDC_SOURCE_FILE_SINK_H_
#define SHARDC_SOURCE_FILE_SINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/sink.h"
#include "source/unfinished.h"

namespace shardc {

// A file that is written as its bytes are made. They go to a file without a
// name in the directory of `path`, or where the system has none to a temporary
// one, which Commit syncs and names: until then the old file is untouched, and
// without Commit nothing is left behind, even by a kill. A link stays and what
// it leads to is replaced, with its permissions; inside a folder that a command
// owns the link itself is. What is not a regular file (a terminal, a pipe) is
// written in place, and "-" is standard output.
class FileSink final : public Sink {
 public:
  enum class Links { kFollow, kReplace };
  explicit FileSink(std::string path, Links links = Links::kFollow);
  ~FileSink() override;

  // What stands at the head of a file may be known last: Leave keeps `size`
  // bytes free and gives their offset, where Amend puts as many. Only for what
  // is not written in place.
  bool amendable() const { return !in_place_; }
  int64_t Leave(size_t size);
  void Amend(int64_t offset, std::string_view bytes);

  // All is out, or a finding (`write`) says why not, the first that failed. A
  // reader of standard output that left early (`| head`) is nobody's error.
  // A file that these findings saw being read is not replaced (usage).
  bool Commit(Findings& findings);

 private:
  void Drain(std::string_view bytes) override;
  void OpenNew(unsigned mode);
  bool OpenNameless();
  int OpenTemporary();
  void Fail(int error);
  // These give errno's value, or 0.
  int Publish();
  int Name();
  int CopyToTemporary();
  int Rename();

  std::string path_;       // as asked for
  std::string target_;     // the file to replace, where links lead
  std::string temporary_;  // its name until then; empty: none
  std::optional<Unfinished> unfinished_;
  unsigned mode_ = 0;  // of the file that it replaces
  int fd_ = -1;
  bool in_place_ = true;
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
