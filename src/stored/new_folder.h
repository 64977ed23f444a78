// A folder of output files that appears under its name complete or not at all.
#ifndef SHARDC_STORED_NEW_FOLDER_H_
#define SHARDC_STORED_NEW_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::stored {

class NewFolder {
 public:
  // Creates the folder PATH + `ending`, which Publish renames to PATH. One that
  // a killed run has left is emptied first. Returns nullopt after the finding
  // `write`, as when PATH exists and is not an empty folder, or another run
  // writes the same folder.
  static std::optional<NewFolder> Create(const std::string& path,
                                         std::string_view ending,
                                         Findings& findings);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&& other) = delete;
  // Removes the folder and what is in it, unless it was published.
  ~NewFolder();

  // The path of a file in the folder until it is published.
  std::string PathOf(std::string_view name) const;
  // Creates a folder in it. Returns false after the finding `write`.
  bool MakeFolder(std::string_view name, Findings& findings) const;
  // Gives the folder its name. All files in it must have been synced. Returns
  // false after the finding `write`.
  bool Publish(Findings& findings);

 private:
  NewFolder() = default;
  // Locks the folder. Returns false after a finding.
  bool Lock(Findings& findings);
  bool Empty(Findings& findings) const;

  std::string path_;
  std::string temporary_;  // empty: there is nothing to remove
  int fd_ = -1;            // of the folder, locked
};

// A file of a NewFolder, written from the start to the end.
class NewFile {
 public:
  // Returns nullopt after the finding `write`.
  static std::optional<NewFile> Create(std::string path, Findings& findings);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) = delete;
  ~NewFile();

  int64_t size() const { return size_; }
  // Both return false after the finding `write`. Close syncs the file and the
  // folder that it is in.
  bool Append(std::string_view bytes, Findings& findings);
  bool Close(Findings& findings);

 private:
  NewFile() = default;
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_NEW_FOLDER_H_
