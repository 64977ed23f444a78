// What is said about an input: a code, a level, a place, the observation
// with its numbers, and a way out. Findings are gathered, never thrown.
#ifndef SHARDC_SOURCE_FINDING_H_
#define SHARDC_SOURCE_FINDING_H_

#include <set>
#include <span>
#include <string>
#include <vector>

#include "source/code.h"
#include "source/source.h"

namespace shardc {

// A second place that explains a finding, such as the rule that shadows.
struct Label {
  Place place;
  std::string text;
};

struct Finding {
  const Code* code = nullptr;  // one of the tables' entries, never null
  Level level = Level::kError;
  // Lower case, no final period, code in backticks, as raw UTF-8: whoever
  // prints it escapes control characters.
  std::string message;
  Place place;
  std::string help;  // empty: nothing more to say
  std::vector<Label> labels;
  std::vector<std::string> params;   // parameters concerned, manifest order
  std::vector<std::string> targets;  // a project's, that it is about
  // A file that stands in where `place` is in none: a pack, a flag, nowhere.
  Place anchor;
};

// A file by its device and inode: two names of one file are equal here
// (source/file.h makes them).
using FileId = std::string;

// What was found, and which files were opened on the way: no command writes a
// file that it reads.
class Findings {
 public:
  // Past this many errors a reader may stop; the count goes on.
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
  // The files of other findings, when those are passed on one by one.
  void NoteReadsOf(const Findings& other) {
    read_.insert(other.read_.begin(), other.read_.end());
  }

  // By file, line, column and code; equal ones keep their order.
  void Sort();

 private:
  std::vector<Finding> all_;
  size_t errors_ = 0;
  std::set<FileId> read_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_FINDING_H_
