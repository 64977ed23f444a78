#include "cli/new_files.h"

#include <system_error>

#include "cli/output.h"
#include "source/wording.h"

namespace shardc::cli {

namespace fs = std::filesystem;

bool AllAreNew(const std::string& folder, const std::vector<NewFile>& files,
               Findings& findings) {
  bool good = true;
  for (const NewFile& file : files) {
    std::error_code error;
    const fs::path path = fs::path(folder) / file.path;
    const fs::file_type type = fs::symlink_status(path, error).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::none) {
      // The error is about the folder, so it is reported for one file only.
      findings.Add(
          code::kWrite, Place{MakeSource(path.string(), {})},
          "cannot write " + Quote(path.string()) + ": " + error.message(),
          "give another folder");
      return false;
    }
    findings.Add(
        code::kWrite, {}, "`" + Printable(path.string()) + "` exists already",
        "no file is overwritten: give another folder, or move the file "
        "away");
    good = false;
  }
  return good;
}

NewFileWriter::~NewFileWriter() {
  if (kept_) return;
  std::error_code error;
  for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
    fs::remove(*at, error);
  }
}

bool NewFileWriter::Write(const std::vector<NewFile>& files,
                          Findings& findings) {
  for (const NewFile& file : files) {
    const fs::path path = fs::path(folder_) / file.path;
    if (!MakeFolder(path.parent_path(), findings)) return false;
    if (!PutResult(file.text, path.string(), findings)) return false;
    made_.push_back(path);
  }
  return true;
}

bool NewFileWriter::MakeFolder(const fs::path& folder, Findings& findings) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return true;
  if (!MakeFolder(folder.parent_path(), findings)) return false;
  if (fs::create_directory(folder, error)) {
    made_.push_back(folder);
    return true;
  }
  findings.Add(code::kWrite, {},
               "cannot make the folder `" + Printable(folder.string()) +
                   "`: " + error.message());
  return false;
}

}  // namespace shardc::cli
