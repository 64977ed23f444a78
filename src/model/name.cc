// Splits parameter names at their separator, and makes templates from names. A
// template has `*` in place of each number, so that the layers and experts of a
// stack have one template. For example:
//
//   layers.0.experts.fc1.weight5  ->  layers.*.experts.fc1.weight*
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

size_t EndBeforeExpert(std::string_view name, char separator) {
  const size_t whole = name.size();
  const size_t end = name.find_last_not_of("0123456789*");
  if (end == name.npos || end + 1 == whole) return whole;
  const size_t leaf = name.rfind(separator, end);
  if (leaf == name.npos || leaf == 0) return whole;
  const std::string_view word = name.substr(leaf + 1, end - leaf);
  if (word != "weight" && word != "bias") return whole;
  const size_t module = name.rfind(separator, leaf - 1);
  if (module == name.npos) return whole;
  const std::string_view path = name.substr(0, module);
  const size_t last = path.rfind(separator);
  return path.substr(last == path.npos ? 0 : last + 1) == "experts" ? end + 1
                                                                    : whole;
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
  const size_t kept = EndBeforeExpert(name, separator);
  const bool numbered = kept < name.size();
  name = name.substr(0, kept);
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
    if (end == std::string_view::npos) break;
    out += separator;
    begin = end + 1;
  }
  if (numbered) out += '*';
}

}  // namespace shardc
