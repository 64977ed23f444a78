// Writes the files that a command publishes together, as a checkpoint's files
// are published: the index last, and until then marked as unfinished
// (source/sink.h).
#ifndef SHARDC_CLI_FILE_SET_H_
#define SHARDC_CLI_FILE_SET_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"
#include "source/sink.h"

namespace shardc::cli {

// Files that are published together. If the process is killed, the files are
// the old ones, the new ones, or the index is a mark that no reader accepts.
class FileSet {
 public:
  FileSet() = default;
  // Removes the folders that AddWithFolders made and that are empty.
  ~FileSet();
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Writes all bytes of a file to the disk. The file gets its name in Publish.
  // Returns false after adding the finding `write`.
  bool Add(const std::string& path,
           const std::function<void(FileSink& out)>& write, Findings& findings);
  // Makes the folders that the file needs, and adds the file.
  bool AddWithFolders(const std::string& path,
                      const std::function<void(FileSink& out)>& write,
                      Findings& findings);
  // Gives the files their names. The file that was added last is the index. If
  // there are others, and if the index replaces a file or `marks_new` is true,
  // the index is first `mark`. Returns false after adding the finding `write`.
  bool Publish(std::string_view mark, bool marks_new, Findings& findings);
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<FileSink>> files_;
  // The folders that were made, in the order of creation.
  std::vector<std::filesystem::path> folders_;
};

struct NewFile {
  std::string path;  // relative to the command's folder
  std::string text;
};

// The files that an interrupted run has left in a folder. The mark of the run
// lists them with their digests.
class LeftFiles {
 public:
  static LeftFiles Of(const std::string& folder);
  // Returns whether the interrupted run wrote the file and nobody has changed
  // it since. Its mark counts, too. A new run may replace such a file.
  bool Holds(const std::string& path) const;

 private:
  std::string folder_;
  bool any_ = false;
  std::map<std::string, std::string> digests_;  // by NewFile::path
};

// Returns true if none of the files exists, other than LeftFiles. Otherwise
// adds the finding `write` for each file that exists.
bool AllAreNew(const std::string& folder, const std::vector<NewFile>& files,
               Findings& findings);

// Writes files and makes the folders that they need. The last file is the
// project file, which is their index. Unless Keep() is called, the destructor
// removes all files and folders that were made.
class NewFileWriter {
 public:
  explicit NewFileWriter(std::string folder) : folder_(std::move(folder)) {}
  ~NewFileWriter();
  NewFileWriter(const NewFileWriter&) = delete;
  NewFileWriter& operator=(const NewFileWriter&) = delete;

  // Returns false, after a finding, if a file cannot be written (write), or if
  // a link on its path leads out of the folder's repository (path). Then no
  // file is written.
  bool Write(const std::vector<NewFile>& files, Findings& findings);
  void Keep() { kept_ = true; }

 private:
  std::string folder_;
  // The files and folders that were created so far, in the order of creation.
  std::vector<std::filesystem::path> made_;
  bool kept_ = false;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FILE_SET_H_
