// Checks that a format accepts the given options. Names of options are compared
// as complete words: `--axis` is not in the list `--axis-names --form`.
#include "cli/format_flags.h"

#include <string>

#include "source/code.h"

namespace shardc::cli {

bool TakesFlags(std::string_view name, std::string_view flags,
                std::span<const std::pair<std::string_view, bool>> given,
                Findings& findings) {
  const std::string own = " " + std::string(flags) + " ";
  for (const auto& [flag, set] : given) {
    if (!set || own.find(" " + std::string(flag) + " ") != std::string::npos) {
      continue;
    }
    findings.Add(code::kUsage, {},
                 "`" + std::string(flag) + "` does not apply to the format `" +
                     std::string(name) + "`");
    return false;
  }
  return true;
}

}  // namespace shardc::cli
