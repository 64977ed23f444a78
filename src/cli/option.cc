#include "cli/option.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardc::cli {

bool Option::TakesFile() const {
  return !IsFlag() &&
         (value.find("FILE") != value.npos || value.find("DIR") != value.npos ||
          value.find("PATH") != value.npos);
}

Strings Option::Choices() const {
  Strings choices;
  const char first = value.empty() ? 'A' : value.front();
  const bool listed = value.find('|') != value.npos &&
                      (first >= 'a' || (first >= '0' && first <= '9'));
  for (size_t at = 0; listed && at <= value.size();) {
    const size_t end = std::min(value.find('|', at), value.size());
    choices.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

void Append(Options& options, Options more) {
  options.insert(options.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

Option OutputOption(std::string* to, std::string help) {
  return {.name = "--output",
          .to = to,
          .value = "FILE",
          .help = std::move(help),
          .letter = 'o'};
}

Options Under(std::string_view heading, Options options) {
  for (Option& option : options) {
    if (option.group.empty()) option.group = heading;
  }
  return options;
}

Strings SplitList(const Strings& given) {
  Strings out;
  for (const std::string& text : given) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find_first_of(", ", begin), text.size());
      if (end > begin) out.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

}  // namespace shardc::cli
