#include "source/leftover.h"

#include <stdlib.h>
#include <unistd.h>

#include <memory>

namespace shardc {

std::string TemporaryName(const std::string& path, const std::string& which) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  // File systems limit names to 255 bytes.
  return path.substr(0, base) + "." + path.substr(base, 200) + "." + which +
         ".tmp";
}

void RemoveLeftover(const std::string& path) {
  // The file to which a link leads is the one that is replaced.
  const std::unique_ptr<char, decltype(&::free)> target(
      ::realpath(path.c_str(), nullptr), &::free);
  if (target == nullptr) return;
  ::unlink(TemporaryName(target.get(), kNextFile).c_str());
}

}  // namespace shardc
