#include "cli/dump_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "emit/verify/tensor_file.h"

namespace shardc::cli {

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

std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending) {
  return folder + "/case-" + DumpNumber(index) + std::string(ending);
}

}  // namespace shardc::cli
