// A finding is a diagnostic about the input. It has a code, a level, a place, a
// message with the numbers, and help. Findings are collected, never thrown.
#ifndef SHARDC_SOURCE_FINDING_H_
#define SHARDC_SOURCE_FINDING_H_

#include <set>
#include <span>
#include <string>
#include <vector>

#include "source/code.h"
#include "source/source.h"

namespace shardc {

// A second place that explains a finding, such as the rule that shadows
// another.
struct Label {
  Place place;
  std::string text;
};

struct Finding {
  const Code* code = nullptr;  // points into a table of codes, such as code.h
  Level level = Level::kError;
  // A message has no final period, and quotes code in backticks. The code that
  // prints the message escapes control characters.
  std::string message;
  Place place;
  std::string help;  // what the user should do; may be empty
  std::vector<Label> labels;
  std::vector<std::string> params;   // affected parameters, in manifest order
  std::vector<std::string> targets;  // affected targets of a project file
  // The file in which reports show the finding if its place is not in a file
  // but, for example, in a rule pack or a flag. May be empty.
  Place main_file;
};

// The identity of a file: its device and inode, so that all paths of the file
// have the same FileId. If there is no file at a path, the identity is the path
// itself. FileIdOf (source/file.h) returns it.
using FileId = std::string;

// Collects the diagnostics (findings) of a run, and records the files that the
// run has read. No command may write a file that it has read.
class Findings {
 public:
  // After this many errors a parser may stop. Later errors are still counted.
  static constexpr size_t kErrorLimit = 50;

  Finding& Add(const Code& code, Place place, std::string message,
               std::string help = {});
  void Add(Finding finding);
  void Append(Findings other);

  bool HasErrors() const { return errors_ > 0; }
  size_t errors() const { return errors_; }
  bool Full() const { return errors_ >= kErrorLimit; }
  bool empty() const { return all_.empty(); }
  std::span<const Finding> all() const { return all_; }

  void NoteRead(const FileId& file) { read_.insert(file); }
  bool WasRead(const FileId& file) const { return read_.contains(file); }
  // Copies from `other` the list of the files that were read. Callers that copy
  // only the diagnostics of `other`, one by one, call this function as well.
  void NoteReadsOf(const Findings& other) {
    read_.insert(other.read_.begin(), other.read_.end());
  }

  // Sorts by file, line, column and code. The sort is stable.
  void Sort();

 private:
  std::vector<Finding> all_;
  size_t errors_ = 0;
  std::set<FileId> read_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_FINDING_H_
