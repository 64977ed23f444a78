// Reads the committed files of a target (a plan and a step program), and
// decides whether a file may be overwritten.
#ifndef SHARDC_CLI_COMMITTED_PLAN_H_
#define SHARDC_CLI_COMMITTED_PLAN_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "source/sink.h"
#include "source/source.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Reads the target's committed plan. If it cannot be read, returns null and
// adds a finding that names the command that creates it.
SourceRef ReadCommittedPlan(const Target& target, Findings& findings);
// Reads the target's committed step program. If it cannot be read, returns null
// and adds a finding that names the command that creates it.
SourceRef ReadCommittedStep(const Target& target, Findings& findings);

// Returns whether `path` may be overwritten. Otherwise adds a finding. A
// mistyped path in the project must not destroy another file of the user. The
// path may therefore be overwritten only if this run has not read it, and if
// one of these is true:
// - the path does not exist, or is no regular file
// - the file is empty
// - the first 4 KiB of the file contain the schema's name ("shardc.plan")
bool MayReplace(const Target& target, const std::string& path,
                std::string_view schema, Findings& findings);

// Compiles a step for each of the target's modes train, prefill and decode, and
// returns the reports of these steps. The steps have the target's batch and a
// default length. They are not run. Returns nullopt after findings.
std::optional<std::vector<verify::StepReport>> StepsToCommit(
    const Target& target, const Compiled& compiled,
    const std::optional<ModelConfig>& model, Findings& findings);

// Writes the files that a command publishes together, as a checkpoint's files
// are published: the index last, and until then marked as unfinished
// (source/sink.h).

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

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
