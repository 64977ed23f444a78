// Classifies plain scalars by YAML 1.2's core schema, without the extra words
// of YAML 1.1:
//
//   16, 0x10  integers     1., .5, 1e5, .inf  reals     True  boolean
//   yes, 1_000, '16'       strings
#include "yaml/core.h"

#include <algorithm>
#include <initializer_list>

#include "source/wording.h"
#include "yaml/error.h"

namespace shardc {
namespace {

bool IsOneOf(std::string_view text,
             std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Returns whether the text is a real by the core schema: an infinity, a NaN, or
// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsCoreReal(std::string_view text) {
  size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  if (IsOneOf(text.substr(at), {".inf", ".Inf", ".INF"})) return true;
  if (IsOneOf(text, {".nan", ".NaN", ".NAN"})) return true;
  const size_t whole = CountDigits(text, at);
  at += whole;
  if (at < text.size() && text[at] == '.') {
    const size_t fraction = CountDigits(text, ++at);
    if (whole == 0 && fraction == 0) return false;
    at += fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = CountDigits(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

}  // namespace

size_t CountDigits(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return end - at;
}

bool IsCoreInteger(std::string_view text) {
  if (text.starts_with("0x")) {
    return text.size() > 2 &&
           text.find_first_not_of("0123456789abcdefABCDEF", 2) ==
               std::string_view::npos;
  }
  if (text.starts_with("0o")) {
    return text.size() > 2 &&
           text.find_first_not_of("01234567", 2) == std::string_view::npos;
  }
  const size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const size_t digits = CountDigits(text, at);
  return digits > 0 && at + digits == text.size();
}

CoreType CoreTypeOf(const YamlNode& scalar) {
  if (scalar.style != YamlStyle::kPlain) return CoreType::kString;
  const std::string_view text = scalar.text;
  if (IsOneOf(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) {
    return CoreType::kBool;
  }
  if (IsCoreInteger(text)) return CoreType::kInteger;
  if (IsCoreReal(text)) return CoreType::kReal;
  return CoreType::kString;
}

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::kNull:
      return "null";
    case YamlKind::kSequence:
      return "a list";
    case YamlKind::kMapping:
      return "a mapping";
    case YamlKind::kScalar:
      break;
  }
  switch (CoreTypeOf(node)) {
    case CoreType::kBool:
      return "the boolean " + ShortQuote(node.text);
    case CoreType::kInteger:
    case CoreType::kReal:
      return "the number " + ShortQuote(node.text);
    case CoreType::kString:
      break;
  }
  if (node.text.empty()) return "an empty string";
  return "the string " + ShortQuote(node.text);
}

}  // namespace shardc
