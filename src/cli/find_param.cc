#include "cli/find_param.h"

#include <string>
#include <string_view>
#include <utility>
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
  std::string help = DidYouMean(name, known, "");
  // If the name is a part of known names, such as `q_proj`, suggest the first
  // of them.
  for (size_t i = 0; i < known.size() && help.empty(); ++i) {
    if (known[i].find(name) == std::string_view::npos) continue;
    help = "did you mean `" + std::string(known[i]) + "`?";
  }
  if (help.empty()) {
    help = "`shardc manifest --manifest FILE` lists the names";
  }
  findings.Add(code::kUsage, {}, "the manifest has no parameter `" + name + "`",
               std::move(help));
  return std::nullopt;
}

}  // namespace shardc::cli
