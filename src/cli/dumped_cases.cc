#include "cli/dumped_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "emit/verify/dump.h"
#include "source/file.h"
#include "source/sink.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

bool MakeFolder(const std::string& path, Findings& findings) {
  if (mkdir(path.c_str(), 0777) == 0) return true;
  int error = errno;
  if (error == EEXIST) {
    struct stat there = {};
    if (stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) return true;
    error = ENOTDIR;
  }
  findings.Add(code::kWrite, {},
               "`" + path + "` cannot be made: " + std::strerror(error));
  return false;
}

// The mark of a folder of `--dump` whose cases are not complete.
std::string CasesMark(const std::string& folder) {
  return folder + "/case-unfinished.json";
}

}  // namespace

bool BeginCases(const std::string& folder, Findings& findings) {
  if (!MakeFolder(folder, findings) ||
      !WriteToFile(CasesMark(folder), kResumeIndex, findings)) {
    return false;
  }
  // A run may have fewer cases than an earlier one.
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("case-") || !name.ends_with(".json") ||
        name.find_first_not_of("0123456789", 5) != name.size() - 5) {
      continue;
    }
    if (RefuseInput(entry.path().string(), findings)) return false;
    if (::unlink(entry.path().c_str()) == 0) continue;
    AddWriteError(entry.path().string(), errno, findings);
    return false;
  }
  return true;
}

bool EndCases(const std::string& folder, Findings& findings) {
  if (::unlink(CasesMark(folder).c_str()) == 0) return true;
  AddWriteError(CasesMark(folder), errno, findings);
  return false;
}

std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending) {
  return folder + "/case-" + DumpNumber(index) + std::string(ending);
}

}  // namespace shardc::cli
