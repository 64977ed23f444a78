// A folder of output files that appears under its name either complete or not
// at all.
#ifndef SHARDC_STORED_NEW_FOLDER_H_
#define SHARDC_STORED_NEW_FOLDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::stored {

// The processes that may write the folder at the same time, and the files that
// remain after a failure.
enum class FolderUse : uint8_t {
  kAlone,     // one process; a failure removes the folder with all files
  kShared,    // one of several processes; a failure keeps the files
  kComplete,  // one process completes the files of several
};

class NewFolder {
 public:
  // Creates the folder PATH + `ending`, which Publish renames to PATH. If a
  // killed run has left a folder of that name, it is kept with its files.
  // Returns nullopt after the finding `write`, for example if PATH exists and
  // is not an empty folder, or if another run writes the same folder.
  static std::optional<NewFolder> Create(const std::string& path,
                                         std::string_view ending,
                                         Findings& findings,
                                         FolderUse use = FolderUse::kAlone);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&& other) = delete;
  // Removes the folder unless Publish has succeeded or Leave was called. With
  // FolderUse::kAlone all files are removed with it; otherwise the folder is
  // removed only if it holds no files.
  ~NewFolder();

  // Returns the path that a file in the folder has until Publish.
  std::string PathOf(std::string_view name) const;
  // Creates a folder inside this one, if it does not exist. Returns false after
  // the finding `write`.
  bool MakeFolder(std::string_view name, Findings& findings) const;
  // Removes all files except those with the given names ("d/values"), and
  // folders that contain none of the named files. Returns false after the
  // finding `write`.
  bool RemoveOthers(std::span<const std::string> names,
                    Findings& findings) const;
  // Keeps the unfinished folder for a later run.
  void Leave() { temporary_.clear(); }
  // Renames the folder to its final name. All files in it must have been
  // synced. Returns false after the finding `write`.
  bool Publish(Findings& findings);

 private:
  NewFolder() = default;
  // Locks the open folder. Returns false after a finding.
  bool Lock(Findings& findings);

  std::string path_;
  FolderUse use_ = FolderUse::kAlone;
  std::string temporary_;  // empty: there is nothing to remove
  int fd_ = -1;            // the open folder, which is locked
};

// A file in a NewFolder, which is written from start to end.
class NewFile {
 public:
  // Create fails if the file exists. Continue keeps only the first `bytes` of a
  // file, and fails if the file is shorter. It creates the file if there is
  // none and `bytes` is 0. Both return nullopt after the finding `write`.
  static std::optional<NewFile> Create(std::string path, Findings& findings);
  static std::optional<NewFile> Continue(std::string path, int64_t bytes,
                                         Findings& findings);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) = delete;
  ~NewFile();

  int64_t size() const { return size_; }
  // Append and Close return false after the finding `write`. Close syncs the
  // file and its folder.
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
