// Reads the members of a mapping by a table of known keys. Unknown keys are
// reported. If an unknown key resembles a known one, it is probably a
// misspelling. The known key is then not reported as missing. For example:
//
//   {mtch: a, spec: []}  ->  unknown key `mtch`, did you mean `match`?
//                            and no finding that `match` is missing
#include "yaml/fields.h"

#include <algorithm>
#include <utility>

#include "source/wording.h"
#include "yaml/core.h"
#include "yaml/error.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

bool HasOddBlank(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (OddBlank(text, at) > 0) return true;
  }
  return false;
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

}  // namespace

std::string Alternatives(std::span<const std::string_view> choices) {
  return Join(choices, " or ");
}

std::string Listed(std::span<const std::string_view> names) {
  return Join(names, " and ");
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
  const bool misspelt =
      std::find(meant_.begin(), meant_.end(), key) != meant_.end();
  if (value == nullptr && !misspelt) {
    context.Add(
        code::kSchema, node,
        std::string(table_->what) + " has no `" + std::string(key) + "`",
        std::move(help));
  }
  return value;
}

}  // namespace shardc
