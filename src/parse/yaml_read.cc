#include "parse/yaml_read.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "parse/yaml_error.h"
#include "source/wording.h"

namespace shardc {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t Digits(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return end - at;
}

bool IsOneOf(std::string_view text,
             std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsCoreReal(std::string_view text) {
  size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  if (IsOneOf(text.substr(at), {".inf", ".Inf", ".INF"})) return true;
  if (IsOneOf(text, {".nan", ".NaN", ".NAN"})) return true;
  const size_t whole = Digits(text, at);
  at += whole;
  if (at < text.size() && text[at] == '.') {
    const size_t fraction = Digits(text, ++at);
    if (whole == 0 && fraction == 0) return false;
    at += fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = Digits(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
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
  const size_t digits = Digits(text, at);
  return digits > 0 && at + digits == text.size();
}

// A tag that the file's reader left to us.
bool RefuseTag(const YamlContext& context, const YamlNode& node) {
  if (node.tag.empty()) return false;
  context.Add(code::kYamlTag, node, "a tag: `!!" + node.tag + "`",
              "remove the tag");
  return true;
}

std::string Join(std::span<const std::string_view> words,
                 std::string_view last) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? last : ", ";
    out += "`" + std::string(words[i]) + "`";
  }
  return out;
}

struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<ByteUnit, 10> kUnits = {{
    {"", 1},
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
}};

std::optional<int64_t> ParseDigits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// "80GiB", "1.5 GB": whole bytes, rounded down.
std::optional<int64_t> ParseBytes(std::string_view text) {
  const size_t whole_digits = Digits(text, 0);
  if (whole_digits == 0) return std::nullopt;
  const auto whole = ParseDigits(text.substr(0, whole_digits));
  if (!whole) return std::nullopt;
  size_t at = whole_digits;
  std::string_view fraction;
  if (at < text.size() && text[at] == '.') {
    const size_t digits = Digits(text, ++at);
    if (digits == 0 || digits > 6) return std::nullopt;
    fraction = text.substr(at, digits);
    at += digits;
  }
  while (at < text.size() && text[at] == ' ') ++at;
  for (const ByteUnit& unit : kUnits) {
    if (text.substr(at) != unit.name) continue;
    if (!fraction.empty() && unit.bytes == 1) return std::nullopt;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(*whole, unit.bytes, &bytes)) {
      return std::nullopt;
    }
    int64_t scale = 1;
    for (size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    // At most 10^6 * 2^40, far below 2^63.
    const int64_t part =
        fraction.empty() ? 0 : *ParseDigits(fraction) * unit.bytes / scale;
    if (__builtin_add_overflow(bytes, part, &bytes)) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

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

std::string Alternatives(std::span<const std::string_view> choices) {
  return Join(choices, " or ");
}

std::string Listed(std::span<const std::string_view> names) {
  return Join(names, " and ");
}

std::string Suggest(std::string_view word,
                    std::span<const std::string_view> candidates) {
  const std::vector<std::string> names(candidates.begin(), candidates.end());
  const auto nearest = Nearest(word, names);
  return nearest ? "did you mean `" + *nearest + "`?" : std::string();
}

std::optional<Fields> Fields::Read(const YamlContext& context,
                                   const YamlNode& node,
                                   const KeyTable& table) {
  if (!node.IsMapping()) {
    context.Add(
        code::kSchema, node,
        std::string(table.what) + " is " + Describe(node) + ", not a mapping",
        "its keys are " + Listed(table.keys));
    return std::nullopt;
  }
  Fields fields(table);
  fields.values_.resize(table.keys.size(), nullptr);
  bool bad_key = false;
  for (const YamlMember& member : node.members) {
    if (!member.key.IsScalar()) {
      // One such finding is enough: the file is no file of ours.
      if (!bad_key) {
        context.Add(code::kSchema, member.key,
                    "a key is " + Describe(member.key),
                    "the keys of " + std::string(table.what) + " are " +
                        Listed(table.keys));
      }
      bad_key = true;
      continue;
    }
    const auto found =
        std::find(table.keys.begin(), table.keys.end(), member.key.text);
    if (found == table.keys.end()) {
      std::string help;
      const std::vector<std::string> names(table.keys.begin(),
                                           table.keys.end());
      if (const auto nearest = Nearest(member.key.text, names)) {
        help = "did you mean `" + *nearest + "`?";
        fields.meant_.push_back(*nearest);
      }

      if (help.empty()) {
        help = "the keys of " + std::string(table.what) + " are " +
               Listed(table.keys);
      }
      context.Add(code::kUnknownKey, member.key,
                  "unknown key " + ShortQuote(member.key.text) + " in " +
                      std::string(table.what),
                  std::move(help));
      continue;
    }
    // Of a duplicate, which is a finding already, the first counts.
    auto& slot =
        fields.values_[static_cast<size_t>(found - table.keys.begin())];
    if (slot == nullptr) slot = &member.value;
  }
  return fields;
}

const YamlNode* Fields::Find(std::string_view key) const {
  const auto found = std::find(table_->keys.begin(), table_->keys.end(), key);
  if (found == table_->keys.end()) return nullptr;
  return values_[static_cast<size_t>(found - table_->keys.begin())];
}

const YamlNode* Fields::Require(const YamlContext& context,
                                const YamlNode& node,
                                std::string_view key) const {
  const YamlNode* value = Find(key);
  // A misspelt one has its finding already.
  const bool misspelt =
      std::find(meant_.begin(), meant_.end(), key) != meant_.end();
  if (value == nullptr && !misspelt) {
    context.Add(
        code::kSchema, node,
        std::string(table_->what) + " has no `" + std::string(key) + "`");
  }
  return value;
}

std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range,
                                    IntegerFault* fault) {
  const std::string shown = ShortQuote(text);
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const size_t digits = Digits(text, sign);
  if (digits == 0 || sign + digits != text.size()) {
    *fault = {"is " + shown + ", which is not a decimal integer",
              "write plain decimal digits, such as 16"};
    return std::nullopt;
  }
  if (text[sign] == '0' && (digits > 1 || sign == 1)) {
    *fault = {"is " + shown + ", an integer with a leading " +
                  (sign == 1 && digits == 1 ? "minus" : "zero"),
              "write plain decimal digits, such as 16"};
    return std::nullopt;
  }
  const auto value = ParseDigits(text);
  if (!value) {
    *fault = {"is " + shown + ", which does not fit in 64 bits", ""};
    return std::nullopt;
  }
  if (*value < range.least) {
    *fault = {"is " + shown + ", less than " + std::to_string(range.least), ""};
    return std::nullopt;
  }
  if (*value > range.most) {
    *fault = {"is " + shown + ", more than " + std::to_string(range.most), ""};
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> ReadInteger(const YamlContext& context,
                                   const YamlNode& node, std::string_view what,
                                   IntegerRange range) {
  const std::string subject(what);
  if (!node.tag.empty()) {
    context.Add(code::kNumber, node,
                subject + " is tagged `!!" + node.tag + "`", "remove the tag");
    return std::nullopt;
  }
  if (!node.IsScalar() || node.style != YamlStyle::kPlain) {
    const bool quoted = node.IsScalar() && IsCoreInteger(node.text);
    context.Add(code::kNumber, node,
                subject + " is " + Describe(node) + ", not an integer",
                quoted ? "write it without quotes"
                       : "write plain decimal digits, such as 16");
    return std::nullopt;
  }
  IntegerFault fault;
  const auto value = ParseInteger(node.text, range, &fault);
  if (!value) {
    context.Add(code::kNumber, node, subject + " " + fault.message, fault.help);
  }
  return value;
}

std::optional<std::string> ReadText(const YamlContext& context,
                                    const YamlNode& node, std::string_view what,
                                    bool strict) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (!node.IsScalar() || (strict && CoreTypeOf(node) != CoreType::kString)) {
    context.Add(code::kSchema, node,
                std::string(what) + " is " + Describe(node) + ", not a string",
                node.IsScalar() ? "put it in quotes" : "");
    return std::nullopt;
  }
  return node.text;
}

std::optional<bool> ReadBool(const YamlContext& context, const YamlNode& node,
                             std::string_view what) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (node.IsScalar() && CoreTypeOf(node) == CoreType::kBool) {
    return node.text[0] == 't' || node.text[0] == 'T';
  }
  context.Add(code::kSchema, node,
              std::string(what) + " is " + Describe(node) + ", not a boolean",
              "write `true` or `false`");
  return std::nullopt;
}

std::optional<size_t> ReadChoice(const YamlContext& context,
                                 const YamlNode& node, std::string_view what,
                                 std::span<const std::string_view> choices) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (node.IsScalar()) {
    const auto found = std::find(choices.begin(), choices.end(), node.text);
    if (found != choices.end()) {
      return static_cast<size_t>(found - choices.begin());
    }
  }
  context.Add(code::kSchema, node, std::string(what) + " is " + Describe(node),
              "it can be " + Alternatives(choices));
  return std::nullopt;
}

std::optional<int64_t> ReadBytes(const YamlContext& context,
                                 const YamlNode& node, std::string_view what) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (node.IsScalar()) {
    const auto bytes = ParseBytes(node.text);
    if (bytes && *bytes > 0) return bytes;
  }
  context.Add(
      code::kNumber, node,
      std::string(what) + " is " + Describe(node) + ", not a size in bytes",
      "write a number and a unit, such as `80GiB`");
  return std::nullopt;
}

std::optional<std::vector<std::string>> ReadTexts(const YamlContext& context,
                                                  const YamlNode& node,
                                                  std::string_view what) {
  std::vector<std::string> texts;
  if (node.IsScalar()) {
    auto text = ReadText(context, node, what);
    if (!text) return std::nullopt;
    texts.push_back(std::move(*text));
    return texts;
  }
  if (!node.IsSequence()) {
    context.Add(code::kSchema, node,
                std::string(what) + " is " + Describe(node) +
                    ", not a list of strings");
    return std::nullopt;
  }
  bool good = true;
  for (const YamlNode& item : node.items) {
    auto text = ReadText(context, item, "an entry of " + std::string(what));
    good &= text.has_value();
    if (text) texts.push_back(std::move(*text));
  }
  if (!good) return std::nullopt;
  return texts;
}

void CheckVersion(const YamlContext& context, const YamlNode* node) {
  if (node == nullptr) return;
  const auto version = ReadInteger(context, *node, "`version`", {1});
  if (version && *version != 1) {
    context.Add(
        code::kSchema, *node,
        "version " + std::to_string(*version) + " of this format is not known",
        "this program reads version 1");
  }
}

std::optional<std::string> ReadKey(const YamlContext& context,
                                   const YamlNode& key, const Code& code,
                                   std::string_view what) {
  if (key.IsScalar() && !key.text.empty()) return key.text;
  context.Add(code, key, std::string(what) + " is " + Describe(key),
              "write a name");
  return std::nullopt;
}

std::string AxisNameFault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name == "_") return "means no axis";
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (!letter(name[0])) return "does not begin with a letter";
  for (char c : name) {
    if (!letter(c) && !IsDigit(c) && c != '-' && c != '.') {
      return "holds something else than letters, digits, `_`, `-` and `.`";
    }
  }
  return {};
}

}  // namespace shardc
