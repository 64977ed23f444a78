#include "cli/find_param.h"

#include <string_view>
#include <vector>

#include "source/wording.h"

namespace shardc::cli {

std::optional<size_t> FindParam(Texts names, char separator,
                                const std::string& name, Findings& findings) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  std::string swapped = name;
  for (char& c : swapped) {
    if (separator != 0 && (c == '/' || c == '.')) c = separator;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == swapped) return i;
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  findings.Add(code::kUsage, {}, "the manifest has no parameter `" + name + "`",
               DidYouMean(name, known, "`shardc manifest` lists the names"));
  return std::nullopt;
}

}  // namespace shardc::cli
