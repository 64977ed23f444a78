// Writes the files that a command creates together: all of them or none.
#ifndef SHARDC_CLI_NEW_FILES_H_
#define SHARDC_CLI_NEW_FILES_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "source/finding.h"

namespace shardc::cli {

struct NewFile {
  std::string path;  // relative to the folder
  std::string text;
};

// Returns true if none of the files exists. Otherwise adds a finding (write)
// for each file that does.
bool AllAreNew(const std::string& folder, const std::vector<NewFile>& files,
               Findings& findings);

// Writes files and makes their folders. Unless Keep() is called, the destructor
// removes everything that was written.
class NewFileWriter {
 public:
  explicit NewFileWriter(std::string folder) : folder_(std::move(folder)) {}
  ~NewFileWriter();
  NewFileWriter(const NewFileWriter&) = delete;
  NewFileWriter& operator=(const NewFileWriter&) = delete;

  // Returns false, after a finding (write), at the first file that cannot be
  // written.
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
