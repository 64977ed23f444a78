// Reads one rule or one bundle (a named set of specs). All parts of a rule are
// read even after an error, so that all errors are reported in one run. A
// pattern on several lines, or with invisible characters, is reported, because
// it would hardly ever match.
//
//   {match: wte, spec: [tp, _], modes: {decode: [_, tp]}}
//     ->  [tp, null], and [null, tp] for decode
#include "parse/rule_read.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "parse/keys.h"
#include "parse/policy_read.h"
#include "parse/spec_read.h"
#include "source/wording.h"
#include "yaml/error.h"

namespace shardc {
namespace {

// The largest number of parts of a dimension.
constexpr int64_t kMostParts = 1 << 20;

// An invisible character, with its name and its escape in a pattern. Names of
// parameters hardly ever contain such characters.
struct Invisible {
  std::string_view bytes;
  std::string_view name;
  std::string_view escape;
};
constexpr std::array<Invisible, 12> kInvisible = {{
    {"\xc2\xa0", "a no-break space", R"(\x{a0})"},
    {"\xc2\xad", "a soft hyphen", R"(\x{ad})"},
    {"\xe2\x80\x8b", "a zero-width space", R"(\x{200b})"},
    {"\xe2\x80\x8c", "a zero-width non-joiner", R"(\x{200c})"},
    {"\xe2\x80\x8d", "a zero-width joiner", R"(\x{200d})"},
    {"\xe2\x80\x8e", "a left-to-right mark", R"(\x{200e})"},
    {"\xe2\x80\x8f", "a right-to-left mark", R"(\x{200f})"},
    {"\xe2\x80\xa8", "a line separator", R"(\x{2028})"},
    {"\xe2\x80\xa9", "a paragraph separator", R"(\x{2029})"},
    {"\xe2\x80\xae", "a right-to-left override", R"(\x{202e})"},
    {"\xe2\x81\xa0", "a word joiner", R"(\x{2060})"},
    {"\xef\xbb\xbf", "a byte order mark", R"(\x{feff})"},
}};

// Reports a pattern that is written on several lines, or that contains
// invisible characters. Returns false if the pattern was reported.
bool CheckPattern(const YamlContext& context, const YamlNode& node,
                  std::string_view what) {
  const std::string subject(what);
  const std::string_view written = context.document.source()->text().substr(
      node.begin, node.end - node.begin);
  if (node.text.find('\n') != std::string::npos) {
    context.Add(code::kRegexSemantic, node,
                subject + " holds a line break, which no name does",
                "write it on one line in single quotes");
    return false;
  }
  if (written.find('\n') != std::string_view::npos) {
    const bool block = written.starts_with('|') || written.starts_with('>');
    context.Add(code::kRegexSemantic, node,
                subject + (block ? " is a block, and a pattern is one line"
                                 : " runs over several lines, which puts a "
                                   "space into it"),
                "write it on one line in single quotes");
    return false;
  }
  for (const Invisible& invisible : kInvisible) {
    if (node.text.find(invisible.bytes) == std::string::npos) continue;
    context.Add(code::kRegexSemantic, node,
                subject + " holds " + std::string(invisible.name) +
                    ", which is invisible",
                "type the pattern again without it; if names hold it, write `" +
                    std::string(invisible.escape) +
                    "` in its place, in single quotes");
    return false;
  }
  return true;
}

std::optional<std::string> ReadPattern(const YamlContext& context,
                                       const YamlNode& node,
                                       std::string_view what) {
  auto text = ReadText(context, node, what, true);
  if (!text || !CheckPattern(context, node, what)) return std::nullopt;
  return text;
}

std::optional<Placement> ReadPlacement(const YamlContext& context,
                                       const YamlNode& node) {
  const auto fields = Fields::Read(context, node, keys::kPlace);
  if (!fields) return std::nullopt;
  const YamlNode* axis = fields->Require(context, node, "axis");
  const YamlNode* index = fields->Require(context, node, "index");
  // If `count` is absent, the number of experts is one more than the largest
  // index in the names.
  const YamlNode* count = fields->Find("count");
  if (axis == nullptr || index == nullptr) return std::nullopt;
  Placement placement;
  placement.place = context.document.PlaceOf(node);
  const auto axis_name = ReadText(context, *axis, "`axis`", true);
  auto pattern = ReadPattern(context, *index, "`index`");
  const auto number = count == nullptr
                          ? std::optional<int64_t>(0)
                          : ReadInteger(context, *count, "`count`", {1});
  if (!axis_name || !pattern || !number) return std::nullopt;
  const std::string fault = AxisNameFault(*axis_name);
  if (!fault.empty()) {
    context.Add(code::kAxisName, *axis,
                "axis name " + ShortQuote(*axis_name) + " " + fault);
    return std::nullopt;
  }
  placement.axis = *axis_name;
  placement.index_pattern = std::move(*pattern);
  placement.count = *number;
  return placement;
}

std::string ModeHelp() {
  return "the modes are `train`, `prefill`, `decode` and `insert`";
}

void ReadModes(const YamlContext& context, const YamlNode& node, Rule& rule) {
  if (node.IsNull()) return;
  if (!node.IsMapping()) {
    context.Add(
        code::kSchema, node,
        "`modes` is " + Describe(node) + ", not a mapping of modes to specs",
        "write `modes: {decode: [...]}`");
    return;
  }
  std::map<Mode, std::string> names;  // the first spelling of each mode
  for (const YamlMember& member : node.members) {
    const auto name =
        ReadKey(context, member.key, code::kSchema, "a key of `modes`");
    if (!name) continue;
    const auto mode = ParseMode(*name);
    if (!mode) {
      static constexpr std::array<std::string_view, 4> kModes = {
          "train", "prefill", "decode", "insert"};
      context.Add(code::kUnknownKey, member.key,
                  "unknown mode " + ShortQuote(*name),
                  DidYouMean(*name, kModes, ModeHelp()));
      continue;
    }
    if (member.value.IsMapping()) {
      context.Add(code::kSpec, member.value, "the spec of a mode is a mapping",
                  "`like` stands in `spec` only, and serves every mode");
      continue;
    }
    auto spec = ReadSpecSource(context, member.value, false);
    if (!spec) continue;
    rule.modes.emplace(*mode, std::move(*spec));
    // The same mode may be written in two ways, such as `decode` and
    // `__autoregressive__`. If both keys have the same spelling, the YAML
    // reader has already reported the duplicate.
    if (names.emplace(*mode, *name).first->second != *name) {
      context.Add(code::kDuplicateKey, member.key,
                  "mode `" + std::string(ModeName(*mode)) + "` is given twice",
                  "remove one of the two");
    }
  }
}

// Reads the equal parts of each dimension, such as `[null, 2]`.
DimParts ReadParts(const YamlContext& context, const YamlNode& node) {
  DimParts parts;
  if (node.IsNull()) return parts;
  if (!node.IsSequence()) {
    context.Add(code::kSchema, node,
                "`parts` is " + Describe(node) + ", not a list",
                "write the number of equal parts of each dimension, such as "
                "`parts: [2]`");
    return parts;
  }
  for (const YamlNode& item : node.items) {
    const auto count =
        item.IsNull()
            ? std::optional<int64_t>(1)
            : ReadInteger(context, item, "a number of parts", {1, kMostParts});
    if (!count) return {};
    parts.push_back(*count);
  }
  while (!parts.empty() && parts.back() == 1) parts.pop_back();
  return parts;
}

void ReadOptions(const YamlContext& context, const Fields& fields, Rule& rule) {
  if (const YamlNode* node = fields.Find("modes")) {
    ReadModes(context, *node, rule);
  }
  if (const YamlNode* node = fields.Find("parts")) {
    rule.parts = ReadParts(context, *node);
  }
  if (const YamlNode* node = fields.Find("illegal")) {
    rule.illegal = ReadIllegal(context, *node);
  }
  if (const YamlNode* node = fields.Find("min_size")) {
    rule.min_size = ReadMinSize(context, *node);
  }
  if (const YamlNode* node = fields.Find("place")) {
    rule.placement = ReadPlacement(context, *node);
  }
  if (const YamlNode* node = fields.Find("note")) {
    rule.note = ReadText(context, *node, "`note`").value_or("");
  }
}

}  // namespace

std::optional<Rule> ReadRule(const YamlContext& context, const YamlNode& node) {
  const auto fields = Fields::Read(context, node, keys::kRule);
  if (!fields) return std::nullopt;
  Rule rule;
  rule.place = context.document.PlaceOf(node);
  const YamlNode* match =
      fields->Require(context, node, "match", "write `match: 'PATTERN'`");
  const YamlNode* spec =
      fields->Require(context, node, "spec",
                      "write the axes of each dimension, such as `spec: [FSDP, "
                      "TP]`, or `spec: []` for none");
  ReadOptions(context, *fields, rule);
  std::optional<std::string> pattern;
  std::optional<SpecSource> source;
  if (match != nullptr) pattern = ReadPattern(context, *match, "`match`");
  if (spec != nullptr) source = ReadSpecSource(context, *spec, true);
  if (!pattern || !source) return std::nullopt;
  if (!rule.parts.empty() && std::holds_alternative<SpecLike>(*source)) {
    context.Add(code::kSpec, *fields->Find("parts"),
                "a rule with `like` has no `parts`",
                "the parts of the other parameter are copied with its spec");
    return std::nullopt;
  }
  rule.match = std::move(*pattern);
  rule.match_place = context.document.PlaceOf(*match);
  rule.spec = std::move(*source);
  return rule;
}

std::optional<Bundle> ReadBundle(const YamlContext& context,
                                 const YamlNode& node) {
  Bundle bundle;
  const YamlNode* axes = &node;
  if (node.IsMapping()) {
    const auto fields = Fields::Read(context, node, keys::kBundle);
    if (!fields) return std::nullopt;
    axes = fields->Require(context, node, "axes");
    if (axes == nullptr) return std::nullopt;
    if (const YamlNode* mode = fields->Find("mode")) {
      const auto known =
          mode->IsScalar() ? ParseMode(mode->text) : std::nullopt;
      if (known) {
        bundle.mode = *known;
      } else if (mode->IsScalar() && CoreTypeOf(*mode) == CoreType::kInteger) {
        const auto dim = ReadInteger(context, *mode, "`mode`", {-64, 63});
        if (!dim) return std::nullopt;
        bundle.mode = static_cast<int>(*dim);
      } else {
        context.Add(code::kSchema, *mode,
                    "the mode of a bundle is " + Describe(*mode),
                    ModeHelp() + ", or a dimension's number");
        return std::nullopt;
      }
    }
  }
  if (!axes->IsSequence()) {
    context.Add(code::kSpec, *axes,
                "a bundle is " + Describe(*axes) + ", not a list of axes",
                "write a list such as `[[FSDP, SP], TP]`");
    return std::nullopt;
  }
  auto list = ReadSpecList(context, *axes);
  if (!list) return std::nullopt;
  bundle.axes = std::move(*list);
  return bundle;
}

}  // namespace shardc
