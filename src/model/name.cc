#include "model/name.h"

#include <algorithm>

namespace shardc {

bool AllDigits(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

char SeparatorOf(std::string_view name) {
  return name.find('/') == std::string_view::npos ? '.' : '/';
}

std::vector<std::string_view> SplitName(std::string_view name, char separator) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  while (separator != 0) {
    const size_t end = name.find(separator, begin);
    if (end == std::string_view::npos) break;
    out.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  out.push_back(name.substr(begin));
  return out;
}

std::string NameTemplate(std::string_view name, char separator) {
  std::string out;
  AppendTemplate(name, separator, out);
  return out;
}

bool NamesEmbedding(std::string_view last_part) {
  // `embed_out` is GPT-NeoX's output projection.
  if (last_part == "embed_out") return false;
  return last_part.find("embed") != std::string_view::npos ||
         last_part == "wte" || last_part == "wpe";
}

void AppendTemplate(std::string_view name, char separator, std::string& out) {
  size_t begin = 0;
  while (true) {
    const size_t end =
        separator == 0 ? std::string_view::npos : name.find(separator, begin);
    const std::string_view part =
        name.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (AllDigits(part)) {
      out += '*';
    } else {
      out += part;
    }
    if (end == std::string_view::npos) return;
    out += separator;
    begin = end + 1;
  }
}

}  // namespace shardc
