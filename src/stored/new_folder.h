// Creates a folder of output files that gets its final name only when it is
// complete.
#ifndef SHARDC_STORED_NEW_FOLDER_H_
#define SHARDC_STORED_NEW_FOLDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::stored {

// States whether several processes write the folder at the same time, and which
// files remain after a failure.
enum class FolderUse : uint8_t {
  kAlone,     // one process; a failure removes the folder with all files
  kShared,    // one of several processes; a failure keeps the files
  kComplete,  // one process finishes what several wrote; a failure keeps files
};

class NewFolder {
 public:
  // Creates the folder PATH + `ending`, which Publish renames to PATH. If a
  // killed run has left a folder of that name, the folder is kept with its
  // files. Returns nullopt after the finding `write`, for example if PATH
  // exists and is not an empty folder, or if another run writes the same
  // folder.
  static std::optional<NewFolder> Create(const std::string& path,
                                         std::string_view ending,
                                         Findings& findings,
                                         FolderUse use = FolderUse::kAlone);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&& other) = delete;
  // Removes the folder unless Publish has succeeded or Leave was called. With
  // FolderUse::kAlone, all files in it are removed too. Otherwise the folder is
  // removed only if it contains no files.
  ~NewFolder();

  // Returns the path under which a file of the folder can be opened until
  // Publish is called.
  std::string PathOf(std::string_view name) const;
  // Creates a folder inside this folder if it does not exist. Returns false
  // after the finding `write`.
  bool MakeFolder(std::string_view name, Findings& findings) const;
  // Removes all files except those whose names are listed, such as "d/values".
  // Also removes inner folders that contain none of the listed files. Returns
  // false after the finding `write`.
  bool RemoveOthers(std::span<const std::string> names,
                    Findings& findings) const;
  // Keeps the unfinished folder for a later run.
  void Leave() { temporary_.clear(); }
  // Renames the folder to its final name. All files in it must have been
  // synced. Returns false after the finding `write`.
  bool Publish(Findings& findings);

 private:
  NewFolder() = default;
  // Locks the open folder. Returns false after a finding, for example if
  // another run holds the lock.
  bool Lock(Findings& findings);

  std::string path_;
  FolderUse use_ = FolderUse::kAlone;
  std::string temporary_;  // temporary path; empty after Publish or Leave
  int fd_ = -1;            // descriptor of the open and locked folder
};

// A file in a NewFolder, which is written from start to end.
class NewFile {
 public:
  // Create fails if the file exists. Continue keeps only the first `bytes`
  // bytes of an existing file, and fails if the file is shorter. If `bytes` is
  // 0, Continue creates a missing file. Both functions return nullopt after the
  // finding `write`.
  static std::optional<NewFile> Create(std::string path, Findings& findings);
  static std::optional<NewFile> Continue(std::string path, int64_t bytes,
                                         Findings& findings);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) = delete;
  ~NewFile();

  int64_t size() const { return size_; }
  // Append and Close return false after the finding `write`. Close also syncs
  // the file and its folder.
  bool Append(std::string_view bytes, Findings& findings);
  bool Close(Findings& findings);

 private:
  NewFile() = default;
  static std::optional<NewFile> Open(std::string path, int flags,
                                     Findings& findings);
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_NEW_FOLDER_H_
