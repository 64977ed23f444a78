// Replaces `$i` and `$e` in a pattern by groups of digits. RE2 numbers the
// groups of a pattern from left to right, so the other groups of the pattern
// are counted as well:
//
//   (model\.)?layers\.$i\.w1  ->  (model\.)?layers\.(\d+)\.w1, $i is group 2
#include "step/role_pattern.h"

#include <charconv>
#include <cstdint>
#include <system_error>

namespace shardc::step {
namespace {

// The largest number of a group in a rewrite of RE2.
constexpr int kMostGroups = 9;

}  // namespace

RolePattern MakePattern(const std::string& text) {
  RolePattern out;
  int groups = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      out.text += text.substr(i++, 2);
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    if (text[i] == '$' && (next == 'i' || next == 'e')) {
      out.text += "(\\d+)";
      (next == 'i' ? out.layer_group : out.expert_group) = ++groups;
      ++i;
      continue;
    }
    if (text[i] == '(' && next != '?') ++groups;
    out.text += text[i];
  }
  return out;
}

std::string ScannedPattern(const std::string& pattern, char separator) {
  const bool dotted = separator == '.';
  const std::string_view part = dotted ? "$i\\." : "$i/";
  const size_t at = pattern.find(part);
  if (at == std::string::npos) return "";
  const std::string other = dotted ? "[^.]" : "[^/]";
  const std::string word = dotted ? "[^.0-9]" : "[^/0-9]";
  std::string between = "(?:";
  between += other + "*" + word + other + "*" + std::string(part.substr(2));
  between += ")?";
  return pattern.substr(0, at) + between + pattern.substr(at + part.size());
}

int32_t NumberIn(const Matcher& matcher, size_t pattern, std::string_view name,
                 char separator, int group) {
  if (group == 0 || group > kMostGroups) return -1;
  const auto text =
      matcher.Rewrite(pattern, name, separator, "\\" + std::to_string(group));
  int32_t value = -1;
  if (!text) return value;
  const auto read =
      std::from_chars(text->data(), text->data() + text->size(), value);
  return read.ec == std::errc::result_out_of_range ? INT32_MAX : value;
}

}  // namespace shardc::step
