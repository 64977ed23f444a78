// Finds the file of the running program. On Linux it is /proc/self/exe. This
// file may be missing (on macOS, or in a container without /proc). The name
// that the dynamic loader has for the program is then used. If this name has no
// slash, it is searched for in the folders of PATH, as the shell did:
//
//   `shardc` with PATH=/usr/bin:/opt/bin  ->  /opt/bin/shardc
#include "cli/own_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "source/file.h"

namespace shardc::cli {
namespace {

// Returns the path of the first executable file of this name in the folders of
// PATH. Returns an empty text if there is none.
std::string FindInPath(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    // An empty entry of PATH is the current folder.
    const std::string file =
        folder.empty() ? name : std::string(folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(colon == std::string_view::npos ? rest.size()
                                                       : colon + 1);
  }
  return {};
}

// Returns the name under which the dynamic loader started the program. Returns
// an empty string if the loader knows no name.
std::string LoadersName() {
  Dl_info info = {};
  const auto address = reinterpret_cast<const void*>(&ReadOwnProgram);
  const bool known = ::dladdr(address, &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

SourceRef ReadOwnProgram(Findings& findings) {
  std::string file = "/proc/self/exe";
  if (::access(file.c_str(), R_OK) != 0) {
    file = LoadersName();
    if (file.find('/') == std::string::npos) file = FindInPath(file);
  }
  return ReadSource(file, findings);
}

}  // namespace shardc::cli
