// Reads specs, and the values of `axes` and `register`. A spec is the name of a
// bundle, `{like: ...}`, or a list with one entry for each dimension. An entry
// is a name, `{axis: x}` for the mesh axis x, a list of these, or null or `_`
// for an unsharded dimension. Names are not resolved here, because their
// meaning depends on the mode and on other files.
//
//   [BATCH, [FSDP, SP], _]  ->  {BATCH} {FSDP, SP} {}
#include "parse/spec_read.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "parse/keys.h"
#include "parse/rules.h"
#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// Returns the reason why `text`, which a node contains, cannot be a name in a
// spec, such as "is empty". Returns an empty string for a valid name.
std::string NameFault(const YamlNode& node, const std::string& text) {
  if (text == "None") return "is Python's null";
  const bool null_word =
      text == "null" || text == "~" || text == "Null" || text == "NULL";
  if (null_word) return "is the string, not null";
  if (CoreTypeOf(node) != CoreType::kString) return "is no name";
  if (text.empty()) return "is empty";
  if (text.find(' ') != std::string::npos) return "holds a space";
  for (char c : text) {
    const bool good = IsWordByte(c) || c == '-' || c == '.';
    if (!good) {
      return "holds something else than letters, digits, `_`, `-` and `.`";
    }
  }
  if (IsDigit(text[0])) return "does not begin with a letter";
  return {};
}

std::string NameHelp(const YamlNode& node) {
  if (node.text == "None" || node.text == "null" || node.text == "~" ||
      node.text == "Null" || node.text == "NULL") {
    return "write `null` without quotes for a dimension that is not split";
  }
  if (node.text.find(' ') != std::string::npos) {
    return "separate the names with a comma";
  }
  if (node.text.find_first_of("+|,*") != std::string::npos) {
    return "write several axes of one dimension as a list: `[[fsdp, tp], "
           "null]`";
  }
  return "write a logical axis such as `BATCH`, an axis rule or a mesh axis";
}

// Reads the name of a mesh axis in a value of `axes` or `register`, or in a
// spec.
std::optional<std::string> ReadAxisName(const YamlContext& context,
                                        const YamlNode& node,
                                        std::string_view what) {
  auto name = ReadText(context, node, what, true);
  if (!name) return std::nullopt;
  const std::string fault = AxisNameFault(*name);
  if (fault.empty()) return name;
  context.Add(code::kAxisName, node,
              "axis name " + ShortQuote(*name) + " " + fault);
  return std::nullopt;
}

// Reads `{axis: x}`, the mesh axis x.
std::optional<SpecName> ReadForcedAxis(const YamlContext& context,
                                       const YamlNode& node) {
  const auto fields = Fields::Read(context, node, keys::kForcedAxis);
  if (!fields) return std::nullopt;
  const YamlNode* axis = fields->Require(context, node, "axis");
  if (axis == nullptr) return std::nullopt;
  auto name = ReadAxisName(context, *axis, "`axis`");
  if (!name) return std::nullopt;
  return SpecName{std::move(*name), context.document.PlaceOf(node), true};
}

// The result of reading an entry of a spec. `good` is false after a finding.
// For the valid entries null and `_`, `good` is true and `name` is nullopt.
struct NameResult {
  bool good = false;
  std::optional<SpecName> name;
};
NameResult ReadName(const YamlContext& context, const YamlNode& node,
                    std::string_view where) {
  if (node.IsNull()) return {true, std::nullopt};
  if (!node.tag.empty()) {
    context.Add(code::kYamlTag, node, "a tag: `!!" + node.tag + "`",
                "remove the tag");
    return {};
  }
  if (node.IsMapping()) {
    auto axis = ReadForcedAxis(context, node);
    return {axis.has_value(), std::move(axis)};
  }
  if (!node.IsScalar()) {
    context.Add(code::kSpec, node,
                Describe(node) + " inside " + std::string(where),
                "a group is a flat list of names");
    return {};
  }
  if (node.text == "_") return {true, std::nullopt};
  const std::string fault = NameFault(node, node.text);
  if (!fault.empty()) {
    context.Add(code::kSpec, node,
                ShortQuote(node.text) + " in a spec " + fault, NameHelp(node));
    return {};
  }
  return {true, SpecName{node.text, context.document.PlaceOf(node)}};
}

bool ReadEntry(const YamlContext& context, const YamlNode& node,
               SpecEntry& entry) {
  if (!node.IsSequence()) {
    NameResult result = ReadName(context, node, "a spec");
    if (result.name) entry.names.push_back(std::move(*result.name));
    return result.good;
  }
  entry.is_group = true;
  bool good = true;
  for (const YamlNode& item : node.items) {
    if (context.findings.Full()) return false;
    NameResult result = ReadName(context, item, "a group of a spec");
    good &= result.good;
    if (result.name) entry.names.push_back(std::move(*result.name));
  }
  return good;
}

std::optional<SpecSource> ReadLike(const YamlContext& context,
                                   const YamlNode& node) {
  constexpr std::string_view kHelp =
      "write a list with an entry for each dimension, such as `[FSDP, TP]`";
  constexpr std::array<std::string_view, 1> kLike = {"like"};
  // A mapping such as `{0: fsdp, 1: tp}` is reported once, and not once for
  // each unknown key.
  const bool meant = std::any_of(
      node.members.begin(), node.members.end(), [&](const YamlMember& member) {
        return member.key.IsScalar() &&
               !DidYouMean(member.key.text, kLike).empty();
      });
  if (!meant) {
    context.Add(code::kSchema, node, "a spec has no `like`",
                std::string(kHelp));
    return std::nullopt;
  }
  const auto fields = Fields::Read(context, node, keys::kLike);
  if (!fields) return std::nullopt;
  const YamlNode* like =
      fields->Require(context, node, "like", std::string(kHelp));
  if (like == nullptr) return std::nullopt;
  auto rewrite = ReadText(context, *like, "`like`", true);
  if (!rewrite) return std::nullopt;
  if (rewrite->empty()) {
    context.Add(code::kSchema, *like, "`like` is empty",
                "write the other parameter's name, such as '\\1.weight'");
    return std::nullopt;
  }
  return SpecLike{std::move(*rewrite), context.document.PlaceOf(*like)};
}

bool ReadRegisteredName(const YamlContext& context, const YamlNode& node,
                        RegisteredRule& rule) {
  if (node.IsNull()) return true;  // null: unsharded
  if (!node.IsMapping()) {
    const auto name = ReadText(context, node, "a registration's rule", true);
    if (!name) return false;
    if (name->empty()) {
      context.Add(code::kAxisName, node, "a registration's rule is empty");
      return false;
    }
    rule.names.push_back({*name, false});
    return true;
  }
  auto axis = ReadForcedAxis(context, node);
  if (!axis) return false;
  rule.names.push_back({std::move(axis->text), true});
  return true;
}

}  // namespace

std::optional<SpecList> ReadSpecList(const YamlContext& context,
                                     const YamlNode& node) {
  SpecList list;
  list.place = context.document.PlaceOf(node);
  bool good = true;
  for (const YamlNode& item : node.items) {
    if (context.findings.Full()) return std::nullopt;
    SpecEntry entry;
    good &= ReadEntry(context, item, entry);
    list.entries.push_back(std::move(entry));
  }
  if (!good) return std::nullopt;
  return list;
}

std::optional<SpecSource> ReadSpecSource(const YamlContext& context,
                                         const YamlNode& node,
                                         bool like_allowed) {
  if (node.IsSequence()) {
    auto list = ReadSpecList(context, node);
    if (!list) return std::nullopt;
    return SpecSource(std::move(*list));
  }
  if (node.IsMapping() && like_allowed) return ReadLike(context, node);
  if (node.IsScalar() && node.tag.empty() &&
      CoreTypeOf(node) == CoreType::kString && !node.text.empty()) {
    return SpecBundle{node.text, context.document.PlaceOf(node)};
  }
  std::string help = "write a list such as `[fsdp, tp]`, or a bundle's name";
  if (node.IsNull()) help = "write `[]` for a parameter that is not split";
  context.Add(code::kSpec, node, "a spec is " + Describe(node),
              std::move(help));
  return std::nullopt;
}

std::optional<AxisValue> ReadAxisValue(const YamlContext& context,
                                       const YamlNode& node,
                                       std::string_view what) {
  AxisValue value;
  if (node.IsNull()) return value;
  value.is_null = false;
  if (!node.IsSequence()) {
    auto name = ReadAxisName(context, node, what);
    if (!name) return std::nullopt;
    value.axes.push_back(std::move(*name));
    return value;
  }
  bool good = true;
  for (const YamlNode& item : node.items) {
    if (item.IsNull()) continue;
    if (context.findings.Full()) return std::nullopt;
    auto name = ReadAxisName(context, item, "an entry of " + std::string(what));
    good &= name.has_value();
    if (!name) continue;
    if (IsAmong(*name, value.axes)) {
      context.Add(code::kDuplicateKey, item,
                  "axis `" + *name + "` is given twice in " + std::string(what),
                  "remove one of the two");
      good = false;
    }
    value.axes.push_back(std::move(*name));
  }
  if (!good) return std::nullopt;
  return value;
}

std::optional<RegisteredRule> ReadRegisteredRule(const YamlContext& context,
                                                 const YamlNode& node) {
  RegisteredRule rule;
  if (node.IsNull()) return rule;
  rule.is_null = false;
  bool good = true;
  rule.is_list = node.IsSequence();
  if (rule.is_list) {
    for (const YamlNode& item : node.items) {
      if (context.findings.Full()) return std::nullopt;
      good &= ReadRegisteredName(context, item, rule);
    }
  } else {
    good = ReadRegisteredName(context, node, rule);
  }
  if (!good) return std::nullopt;
  return rule;
}

std::optional<std::string> ReadTokenName(const YamlContext& context,
                                         const YamlNode& key) {
  constexpr std::string_view kWhat = "the name of a registration";
  const auto name = ReadKey(context, key, code::kSchema, kWhat);
  if (!name) return std::nullopt;
  constexpr const char* kBlanks = " \t\r\n\v\f";
  const size_t begin = name->find_first_not_of(kBlanks);
  // The resolver reports a name that is blank.
  if (begin == std::string::npos) return name;
  std::string text =
      name->substr(begin, name->find_last_not_of(kBlanks) + 1 - begin);
  const std::string fault = NameFault(key, text);
  if (fault.empty()) return text;
  context.Add(code::kAxisName, key,
              ShortQuote(text) +
                  " cannot be registered: as a name in a spec, "
                  "it " +
                  fault,
              "begin the name with a letter, and use letters, digits, `_`, "
              "`-` and `.`");
  return std::nullopt;
}

void CheckRepeats(const SpecList& list, const TokenSet& registered,
                  Findings& findings) {
  std::map<std::string_view, const SpecName*> seen;
  for (const SpecEntry& entry : list.entries) {
    for (const SpecName& name : entry.names) {
      const auto [first, is_new] = seen.emplace(name.text, &name);
      if (is_new || FindToken(name.text) != nullptr ||
          ParseAxisRule(name.text) ||
          registered.contains(CanonicalToken(name.text))) {
        continue;
      }
      if (findings.Full()) return;
      findings
          .Add(code::kSpec, name.place,
               "axis `" + name.text + "` is given twice in one spec",
               "an axis can split one dimension only")
          .labels.push_back({first->second->place, "first given here"});
    }
  }
}

std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  auto spec = ReadSpecSource(context, document->root(), false);
  if (findings.errors() > before) return std::nullopt;
  return spec;
}

}  // namespace shardc
