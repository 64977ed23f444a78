// Writes the files that a command creates together. Either all of them are
// written or none.
#ifndef SHARDC_CLI_NEW_FILES_H_
#define SHARDC_CLI_NEW_FILES_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "source/finding.h"

namespace shardc::cli {

struct NewFile {
  std::string path;  // relative to the command's folder
  std::string text;
};

// Returns true if none of the files exists. Otherwise adds a finding (write)
// for each file that exists.
bool AllAreNew(const std::string& folder, const std::vector<NewFile>& files,
               Findings& findings);

// Writes files and makes the folders that they need. Unless Keep() is called,
// the destructor removes all files and folders that were made.
class NewFileWriter {
 public:
  explicit NewFileWriter(std::string folder) : folder_(std::move(folder)) {}
  ~NewFileWriter();
  NewFileWriter(const NewFileWriter&) = delete;
  NewFileWriter& operator=(const NewFileWriter&) = delete;

  // Returns false, after a finding (write), if a file cannot be written. Later
  // files are then not written.
  bool Write(const std::vector<NewFile>& files, Findings& findings);
  void Keep() { kept_ = true; }

 private:
  bool MakeFolder(const std::filesystem::path& folder, Findings& findings);

  std::string folder_;
  // The files and folders that were created so far, in the order of creation.
  std::vector<std::filesystem::path> made_;
  bool kept_ = false;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_NEW_FILES_H_
