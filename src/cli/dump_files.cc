#include "cli/dump_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace shardc::cli {

bool MakeFolder(const std::string& path, Findings& findings) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return true;
  findings.Add(code::kWrite, {},
               "`" + path + "` cannot be made: " + std::strerror(errno));
  return false;
}

std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending) {
  std::string number = std::to_string(index);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return folder + "/case-" + number + std::string(ending);
}

}  // namespace shardc::cli
