// Reads the values of nodes, with one function for each type. Each function
// returns the value, or adds a finding. The finding describes the content of
// the node as YAML defines it, and what to write instead. For example, where a
// boolean is expected:
//
//   yes  ->  is the string `yes`, not a boolean; write `true`
#include "yaml/read.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yaml/error.h"

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
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (!letter(name[0])) return "does not begin with a letter";
  for (char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '-' && c != '.') {
      return "holds something else than letters, digits, `_`, `-` and `.`";
    }
  }
  return {};
}

}  // namespace shardc
