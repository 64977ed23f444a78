// Reads the values of nodes, with one function for each type. Each function
// returns the value, or adds a finding. The finding describes the content of
// the node as YAML defines it, and what to write instead. For example, where a
// boolean is expected:
//
//   yes  ->  is the string `yes`, not a boolean; write `true`
#include "yaml/read.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "source/list.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/scan.h"

namespace shardc {

bool RefuseTag(const YamlContext& context, const YamlNode& node) {
  if (node.tag.empty()) return false;
  context.Add(code::kYamlTag, node, "a tag: `!!" + node.tag + "`",
              "remove the tag");
  return true;
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

std::optional<std::vector<std::string>> ReadTexts(const YamlContext& context,
                                                  const YamlNode& node,
                                                  std::string_view what) {
  std::vector<std::string> texts;
  if (node.IsScalar()) {
    auto text = ReadText(context, node, what, true);
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
    if (context.findings.Full()) return std::nullopt;
    auto text =
        ReadText(context, item, "an entry of " + std::string(what), true);
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
  if (!IsLetter(name[0]) && name[0] != '_') {
    return "does not begin with a letter";
  }
  for (char c : name) {
    if (!IsWordByte(c) && c != '-' && c != '.') {
      return "holds something else than letters, digits, `_`, `-` and `.`";
    }
  }
  return {};
}

// Classifies plain scalars by YAML 1.2's core schema, without the extra words
// of YAML 1.1:
//
//   16, 0x10  integers     1., .5, 1e5, .inf  reals     True  boolean
//   yes, 1_000, '16'       strings

namespace {

bool IsOneOf(std::string_view text,
             std::initializer_list<std::string_view> words) {
  return IsAmong(text, words);
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
  while (end < text.size() && IsDigit(text[end])) ++end;
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

// Reads numbers from their digits as written. yaml-cpp's conversions are not
// used, because they read some digits as octal. Integers and sizes are not
// converted to doubles, which would round large ones. For example:
//
//   16       is an integer
//   1.5 GB   is a size in bytes, read by source/size.h
//
// Where an integer is expected, 010, 1e3, 0x10 and '16' lead to findings.

namespace {

std::optional<int64_t> ParseDigits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range,
                                    IntegerFault* fault) {
  const std::string shown = ShortQuote(text);
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const size_t digits = CountDigits(text, sign);
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

namespace {

std::string RealText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

}  // namespace

std::optional<double> ReadReal(const YamlContext& context, const YamlNode& node,
                               std::string_view what, RealRange range) {
  if (RefuseTag(context, node)) return std::nullopt;
  const CoreType type = node.IsScalar() ? CoreTypeOf(node) : CoreType::kString;
  double value = 0;
  // from_chars refuses `.inf`, `.nan` and a plus sign, which YAML allows and
  // shardc's files do not.
  const char* const end = node.text.data() + node.text.size();
  const auto [read, error] = std::from_chars(node.text.data(), end, value);
  const bool number = type == CoreType::kInteger || type == CoreType::kReal;
  if (!number || error != std::errc() || read != end) {
    const bool quoted =
        node.IsScalar() && node.style == YamlStyle::kQuoted && read == end;
    context.Add(
        code::kNumber, node,
        std::string(what) + " is " + Describe(node) + ", not a decimal number",
        quoted && error == std::errc() ? "write it without quotes"
                                       : "write it as 0.125");
    return std::nullopt;
  }
  const bool much = range.below_most ? value >= range.most : value > range.most;
  if (value >= range.least && !much) return value;
  context.Add(code::kNumber, node,
              std::string(what) + " is " + ShortQuote(node.text) +
                  (!much              ? ", less than "
                   : range.below_most ? ", not below "
                                      : ", more than ") +
                  RealText(much ? range.most : range.least));
  return std::nullopt;
}

std::optional<int64_t> ReadBytes(const YamlContext& context,
                                 const YamlNode& node, std::string_view what) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (node.IsScalar()) {
    if (const auto bytes = ParseByteSize(node.text)) return bytes;
  }
  const std::string seen =
      node.IsScalar() ? ShortQuote(node.text) : Describe(node);
  context.Add(code::kNumber, node, NotByteSize(what, seen),
              std::string(kByteSizeHelp));
  return std::nullopt;
}

// Reads the members of a mapping by a table of known keys. Unknown keys are
// reported. If an unknown key resembles a known one, it is probably a
// misspelling. The known key is then not reported as missing. For example:
//
//   {mtch: a, spec: []}  ->  unknown key `mtch`, did you mean `match`?
//                            and no finding that `match` is missing

namespace {

// Keys that files of one kind have at their top, and the option that reads such
// files. A file that was given for another has one of them.
struct OwnKey {
  char key[12], file[16], option[12];
};
constexpr OwnKey kOwnKeys[] = {{"rules", "a rules file", "--rules"},
                               {"extends", "a rules file", "--rules"},
                               {"bundles", "a rules file", "--rules"},
                               {"register", "a rules file", "--rules"},
                               {"targets", "a project file", "--project"},
                               {"axis_types", "a mesh file", "--mesh"},
                               {"device", "a mesh file", "--mesh"},
                               {"dcn", "a mesh file", "--mesh"},
                               {"slices", "a mesh file", "--mesh"}};

std::string HelpForOwnKey(std::string_view key) {
  for (const OwnKey& own : kOwnKeys) {
    if (own.key != key) continue;
    return Quote(key) + " is a key of " + own.file + ", which " +
           Quote(own.option) + " reads; ";
  }
  return "";
}

bool HasOddBlank(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (OddBlank(text, at) > 0) return true;
  }
  return false;
}

}  // namespace

std::string Alternatives(std::span<const std::string_view> choices) {
  return ListInWords(choices, Quote, " or ");
}

std::string Listed(std::span<const std::string_view> names) {
  return ListInWords(names, Quote);
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
  // A file of another kind has one finding, which names the kind: each of its
  // keys is unknown here.
  if (&node == &context.document.root()) {
    for (const YamlMember& member : node.members) {
      const std::string help = HelpForOwnKey(member.key.text);
      if (help.empty() ||
          std::ranges::find(table.keys, member.key.text) != table.keys.end()) {
        continue;
      }
      context.Add(code::kUnknownKey, member.key,
                  "unknown key " + ShortQuote(member.key.text) + " in " +
                      std::string(table.what),
                  help + "the keys of " + std::string(table.what) + " are " +
                      Listed(table.keys));
      return std::nullopt;
    }
  }
  Fields fields(table);
  fields.values_.resize(table.keys.size(), nullptr);
  bool bad_key = false;
  for (const YamlMember& member : node.members) {
    if (context.findings.Full()) break;
    if (!member.key.IsScalar()) {
      // Report only the first key that is not a scalar: the file probably has
      // another format.
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
      // In a message, a no-break space looks like a space.
      if (HasOddBlank(member.key.text)) {
        context.Add(code::kYamlSyntax, member.key,
                    "the key " + ShortQuote(member.key.text) +
                        " contains a blank that is not a space",
                    std::string(kOddBlankHelp));
        continue;
      }
      // "a rule" has the words of "rule".
      std::string help =
          HelpForOtherWord(AfterLast(table.what, ' '), member.key.text);
      const std::vector<std::string> names(table.keys.begin(),
                                           table.keys.end());
      const auto nearest = help.empty() ? Nearest(member.key.text, names)
                                        : std::optional<std::string>();
      if (nearest) {
        help = "did you mean `" + *nearest + "`?";
        fields.meant_.push_back(*nearest);
      }

      if (help.empty()) {
        help = HelpForOwnKey(member.key.text) + "the keys of " +
               std::string(table.what) + " are " + Listed(table.keys);
      }
      context.Add(code::kUnknownKey, member.key,
                  "unknown key " + ShortQuote(member.key.text) + " in " +
                      std::string(table.what),
                  std::move(help));
      continue;
    }
    // Use the first value of a duplicate key, which has been reported.
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
                                const YamlNode& node, std::string_view key,
                                std::string help) const {
  const YamlNode* value = Find(key);
  // Do not report a key as missing if a misspelling of it has been reported.
  const bool misspelt = IsAmong(key, meant_);
  if (value == nullptr && !misspelt) {
    context.Add(
        code::kSchema, node,
        std::string(table_->what) + " has no `" + std::string(key) + "`",
        std::move(help));
  }
  return value;
}

}  // namespace shardc
