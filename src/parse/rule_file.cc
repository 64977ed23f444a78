// Reads one rules file section by section. If the file extends other files,
// only their names are stored. The exception is an inherited `model:` section,
// which is merged at once: the caller's function ModelBase returns it. Each
// rule gets the separator of the file. If the file does not state the
// separator, it is inferred from the patterns. For example:
//
//   {rules: [{match: 'attn\.wq', spec: [tp]}]}
//     ->  one rule [tp] for names with `.` between their parts
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "model/rules.h"
#include "parse/keys.h"
#include "parse/model_section.h"
#include "parse/rules.h"
#include "parse/spec_read.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// Reads one rule or one bundle (a named set of specs). All parts of a rule are
// read even after an error, so that all errors are reported in one run. A
// pattern on several lines, or with invisible characters, is reported, because
// it would hardly ever match.
//
//   {match: wte, spec: [tp, _], modes: {decode: [_, tp]}}
//     ->  [tp, null], and [null, tp] for decode

// The largest number of parts of a dimension, of listed parts, and of elements
// of one of these.
constexpr int64_t kMostParts = 1 << 20;
constexpr size_t kMostListedParts = 1 << 10;
constexpr int64_t kMostPartSize = int64_t{1} << 50;

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

// Reads the specs that replace a spec in some modes.
void ReadModes(const YamlContext& context, const YamlNode& node,
               std::map<Mode, SpecSource>& modes) {
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
    modes.emplace(*mode, std::move(*spec));
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

// Reads the parts of one dimension: their number, or a list of their sizes.
std::optional<PartsOfDim> ReadPartsOfDim(const YamlContext& context,
                                         const YamlNode& node) {
  PartsOfDim out;
  if (node.IsNull()) return out;
  if (!node.IsSequence()) {
    const auto count =
        ReadInteger(context, node, "a number of parts", {1, kMostParts});
    if (!count) return std::nullopt;
    out.count = *count;
    return out;
  }
  if (node.items.size() < 2 || node.items.size() > kMostListedParts) {
    context.Add(code::kSchema, node,
                "a list of the sizes of parts has " +
                    Counted(static_cast<int64_t>(node.items.size()), "size") +
                    ", and there are from 2 to " +
                    std::to_string(kMostListedParts),
                "write the size of each part in order, such as `parts: [[4096, "
                "1024, 1024]]`, or null for a dimension of one part");
    return std::nullopt;
  }
  for (const YamlNode& item : node.items) {
    const auto size =
        ReadInteger(context, item, "the size of a part", {1, kMostPartSize});
    if (!size) return std::nullopt;
    out.sizes.push_back(*size);
  }
  out.count = static_cast<int64_t>(out.sizes.size());
  return out;
}

// Reads the parts of each dimension, such as `[null, 2]`.
DimParts ReadParts(const YamlContext& context, const YamlNode& node) {
  DimParts parts;
  if (node.IsNull()) return parts;
  if (!node.IsSequence()) {
    context.Add(code::kSchema, node,
                "`parts` is " + Describe(node) + ", not a list",
                "write the number of equal parts of each dimension, such as "
                "`parts: [2]`, or a list of the sizes of its parts, such as "
                "`parts: [[4096, 1024, 1024]]`");
    return parts;
  }
  for (const YamlNode& item : node.items) {
    auto of = ReadPartsOfDim(context, item);
    if (!of) return {};
    parts.push_back(std::move(*of));
  }
  while (!parts.empty() && !parts.back().several()) parts.pop_back();
  return parts;
}

void ReadOptions(const YamlContext& context, const Fields& fields, Rule& rule) {
  if (const YamlNode* node = fields.Find("modes")) {
    ReadModes(context, *node, rule.modes);
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

// Reads one rule. The caller sets the separator of the rule. Returns nullopt
// after a finding.
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

// Reads a bundle, which is a list of axes, or `{axes: [...], mode: decode}`.
// The mode is a name, or the index of a dimension: if this dimension of a
// tensor has size 1, the mode is decode. The caller sets the name and the place
// of the bundle. Returns nullopt after a finding.
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

// Reads the spec of an activation, or `{spec: [...], modes: {decode: [...]}}`.
// The caller sets the name and the place. Returns nullopt after a finding.
std::optional<ActivationRule> ReadActivation(const YamlContext& context,
                                             const YamlNode& node) {
  ActivationRule rule;
  const YamlNode* spec = &node;
  if (node.IsMapping()) {
    const auto fields = Fields::Read(context, node, keys::kActivation);
    if (!fields) return std::nullopt;
    spec = fields->Require(context, node, "spec");
    if (spec == nullptr) return std::nullopt;
    if (const YamlNode* modes = fields->Find("modes")) {
      ReadModes(context, *modes, rule.modes);
    }
  }
  auto source = ReadSpecSource(context, *spec, false);
  if (!source) return std::nullopt;
  rule.spec = std::move(*source);
  return rule;
}

// The separators that occur in the patterns of rules. A separator is an escaped
// dot, or a slash outside of a character class.
struct PatternSeparators {
  bool slash = false;
  bool dot = false;

  void Add(std::string_view pattern) {
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      if (c == '\\' && i + 1 < pattern.size()) {
        ++i;
        dot = dot || pattern[i] == '.';
        slash = slash || (pattern[i] == '/' && !in_class);
      } else if (in_class) {
        in_class = c != ']';
      } else if (c == '[') {
        in_class = true;
        // In `[]a]` and `[^]a]` the first `]` is a member of the class.
        if (i + 1 < pattern.size() && pattern[i + 1] == '^') ++i;
        if (i + 1 < pattern.size() && pattern[i + 1] == ']') ++i;
      } else {
        slash = slash || c == '/';
      }
    }
  }

  SeparatorFrom From() const {
    if (slash && dot) return SeparatorFrom::kBoth;
    return slash || dot ? SeparatorFrom::kPatterns : SeparatorFrom::kNames;
  }
};

class RuleFileReader {
 public:
  RuleFileReader(const YamlContext& context, const ModelBase& base)
      : context_(context), base_(base) {}

  std::optional<RuleFile> Read() {
    const YamlNode& root = context_.document.root();
    if (RefusedPairs(root)) return std::nullopt;
    const auto fields = Fields::Read(context_, root, keys::kRules);
    if (!fields) return std::nullopt;
    file_.source = context_.document.source();
    CheckVersion(context_, fields->Find("version"));
    if (const YamlNode* node = fields->Find("extends")) ReadExtends(*node);
    std::optional<char> separator;
    if (const YamlNode* node = fields->Find("separator")) {
      separator = ReadSeparator(*node);
    }
    if (const YamlNode* node = fields->Find("axes")) ReadAxes(*node);
    if (const YamlNode* node = fields->Find("register")) {
      ReadRegistrations(*node);
    }
    if (const YamlNode* node = fields->Find("bundles")) ReadBundles(*node);
    if (const YamlNode* node = fields->Find("activations")) {
      ReadActivations(*node);
    }
    if (const YamlNode* node = fields->Find("policy")) {
      file_.policy = ReadPolicy(context_, *node);
    }
    if (const YamlNode* node = fields->Find("kv_replicate")) {
      file_.policy.kv_replicate = ReadBool(context_, *node, "`kv_replicate`");
    }
    if (const YamlNode* node = fields->Find("weight_decay")) {
      file_.weight_decay_exclude = ReadWeightDecay(context_, *node);
    }
    if (const YamlNode* node = fields->Find("rules")) {
      ReadRules(*node);
    }
    // Errors in the section `stages` are reported here. The section is not
    // stored, because DeclaredStages reads it from the file again when it is
    // needed.
    if (const YamlNode* node = fields->Find("stages")) {
      ReadRulesStages(context_, *node);
    }
    GiveSeparator(separator);
    if (const YamlNode* node = fields->Find("model"))
      ReadModel(*node, separator);
    return std::move(file_);
  }

 private:
  Place PlaceOf(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  // Returns whether the file has the pairs of a pattern and a spec that rules
  // have in Python: a list of `[pattern, spec]`, or a mapping of patterns to
  // specs. Then a finding shows the first pair as a rule.
  bool RefusedPairs(const YamlNode& root) {
    const YamlNode* pattern = nullptr;
    const YamlNode* spec = nullptr;
    if (root.IsSequence() && !root.items.empty()) {
      const YamlNode& first = root.items.front();
      if (first.IsMapping()) {
        context_.Add(code::kSchema, root, "a rules file is a list of mappings",
                     "write `rules:` in a line above the list");
        return true;
      }
      if (!first.IsSequence() || first.items.size() != 2) return false;
      pattern = &first.items[0];
      spec = &first.items[1];
    } else if (root.IsMapping() && !root.members.empty()) {
      const YamlMember& first = root.members.front();
      if (!first.value.IsSequence() || !first.key.IsScalar() ||
          first.key.text.find_first_of("*./\\$") == std::string::npos) {
        return false;
      }
      pattern = &first.key;
      spec = &first.value;
    }
    if (pattern == nullptr || !pattern->IsScalar()) return false;
    const std::string_view text = context_.document.source()->text();
    const Place place = PlaceOf(*spec);
    const bool one_line =
        place.end - place.begin < 60 &&
        text.substr(place.begin, place.end - place.begin).find('\n') ==
            std::string_view::npos;
    const std::string written =
        !one_line
            ? "[...]"
            : std::string(text.substr(place.begin, place.end - place.begin));
    context_.Add(code::kSchema, *pattern,
                 root.IsSequence()
                     ? "a rules file is a list of patterns and specs"
                     : "a rules file is a mapping of patterns to specs, whose "
                       "order would not be stated",
                 "write the pairs as a list of rules under `rules:`, such as "
                 "`- {match: " +
                     SingleQuoted(pattern->text) + ", spec: " + written + "}`");
    return true;
  }

  // Returns whether the node is a mapping. Also returns false for null, which
  // means an empty mapping. Any other value is reported.
  bool IsMap(const YamlNode& node, std::string_view what,
             std::string_view example) {
    if (node.IsMapping()) return true;
    if (node.IsNull()) return false;
    context_.Add(
        code::kSchema, node,
        "`" + std::string(what) + "` is " + Describe(node) + ", not a mapping",
        "write `" + std::string(example) + "`");
    return false;
  }

  void ReadExtends(const YamlNode& node) {
    if (node.IsNull()) return;
    const auto add = [&](const YamlNode& item) {
      if (context_.findings.Full()) return;
      auto name = ReadText(context_, item, "an entry of `extends`", true);
      if (!name) return;
      if (name->empty()) {
        context_.Add(code::kSchema, item, "an entry of `extends` is empty");
        return;
      }
      file_.extends.push_back({std::move(*name), PlaceOf(item)});
    };
    if (node.IsScalar()) {
      add(node);
    } else if (node.IsSequence()) {
      for (const YamlNode& item : node.items) add(item);
    } else {
      context_.Add(code::kSchema, node,
                   "`extends` is " + Describe(node) + ", not a list of files",
                   "write `extends: [builtin:llama, ./base.yaml]`");
    }
  }

  char ReadSeparator(const YamlNode& node) {
    static constexpr std::array<std::string_view, 2> kChoices = {"/", "."};
    const auto choice = ReadChoice(context_, node, "`separator`", kChoices);
    return choice ? kChoices[*choice][0] : '/';
  }

  void ReadAxes(const YamlNode& node) {
    if (!IsMap(node, "axes", "axes: {head: tp}")) return;
    if (const YamlMember* const size = FirstSize(node)) {
      context_.Add(code::kSchema, size->key,
                   ShortQuote(size->key.text) + " has the size " +
                       Quote(size->value.text) + ", as an axis of a mesh has",
                   "a mesh file is read by `--mesh`; in a rules file `axes` "
                   "names the mesh axes of axis rules: `axes: {head: tp}`");
      return;
    }
    std::map<AxisRule, std::string> written;
    for (const YamlMember& member : node.members) {
      const auto name = ReadKey(context_, member.key, code::kSchema,
                                "the name of an axis rule");
      if (!name) continue;
      const auto rule = ParseAxisRule(*name);
      if (!rule) {
        context_.Add(code::kUnknownKey, member.key,
                     "unknown axis rule " + ShortQuote(*name),
                     SuggestAxisRule(*name));
        continue;
      }
      // A key that is written twice in the same way is reported by the parser.
      const auto [first, is_new] = written.emplace(*rule, *name);
      if (!is_new) {
        if (first->second == *name) continue;
        context_.Add(code::kDuplicateKey, member.key,
                     "`" + *name + "` and `" + first->second +
                         "` are the same axis rule",
                     "remove one of the two");
        continue;
      }
      auto value = ReadAxisValue(context_, member.value, "`" + *name + "`");
      if (!value) continue;
      file_.axes.Set(*rule, std::move(*value));
      file_.axes_places[static_cast<size_t>(*rule)] = {
          context_.document.source(), member.key.begin,
          std::max(member.key.end, member.value.end)};
    }
  }

  // Returns the first member whose key is no axis rule and whose value is a
  // number, such as `fsdp: 4` of a mesh; null if there is none.
  static const YamlMember* FirstSize(const YamlNode& node) {
    for (const YamlMember& member : node.members) {
      const std::string& text = member.value.text;
      if (member.key.IsScalar() && member.value.IsScalar() && !text.empty() &&
          text.find_first_not_of("0123456789-") == text.npos &&
          !ParseAxisRule(member.key.text)) {
        return &member;
      }
    }
    return nullptr;
  }

  static std::string SuggestAxisRule(const std::string& name) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      names.push_back(AxisRuleName(static_cast<AxisRule>(i)));
    }
    return DidYouMean(name, names, "the axis rules are " + Listed(names));
  }

  // Reads `register`, which defines logical axes, such as `{MY_AXIS: {rule:
  // head}}`. A list of such mappings is applied in order. A later mapping may
  // replace (`override: true`) or unregister a name that an earlier mapping
  // registered.
  void ReadRegistrations(const YamlNode& node) {
    if (node.IsSequence()) {
      for (const YamlNode& step : node.items) ReadRegistrationMap(step, true);
    } else {
      ReadRegistrationMap(node, false);
    }
  }

  void ReadRegistrationMap(const YamlNode& node, bool steps) {
    if (!IsMap(node, "register", "register: {MY_AXIS: {rule: head}}")) return;
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      auto name = ReadTokenName(context_, member.key);
      if (!name) continue;
      const std::string& written = member.key.text;
      const auto [same, is_new] =
          tokens_.emplace(CanonicalToken(*name), written);
      if (!is_new && !steps) {
        if (same->second == written) continue;
        context_.Add(code::kDuplicateKey, member.key,
                     "`" + written + "` and `" + same->second +
                         "` are the same logical axis",
                     "remove one of the two");
        continue;
      }
      auto registration = ReadRegistration(std::move(*name), member);
      if (registration) TakeStep(std::move(*registration));
    }
  }

  std::optional<Registration> ReadRegistration(std::string name,
                                               const YamlMember& member) {
    const auto fields =
        Fields::Read(context_, member.value, keys::kRegistration);
    if (!fields) return std::nullopt;
    Registration registration;
    registration.name = std::move(name);
    registration.place = {context_.document.source(), member.key.begin,
                          std::max(member.key.end, member.value.end)};
    const auto flag = [&](const char* key, bool by_default) {
      const YamlNode* node = fields->Find(key);
      if (node == nullptr) return by_default;
      return ReadBool(context_, *node, "`" + std::string(key) + "`")
          .value_or(by_default);
    };
    registration.unregister = flag("unregister", false);
    registration.missing_ok = flag("missing_ok", true);
    registration.override_existing = flag("override", false);
    if (registration.unregister) {
      for (const char* key : {"rule", "generation", "override"}) {
        const YamlNode* node = fields->Find(key);
        if (node == nullptr) continue;
        context_.Add(code::kSchema, *node,
                     "`" + std::string(key) +
                         "` is given for a name that is unregistered",
                     "remove `" + std::string(key) + "` or `unregister`");
        return std::nullopt;
      }
      return registration;
    }
    if (const YamlNode* node = fields->Find("missing_ok")) {
      context_.Add(code::kSchema, *node,
                   "`missing_ok` is given for a name that is registered",
                   "remove it, or write `unregister: true`");
      return std::nullopt;
    }
    const YamlNode* rule = fields->Require(context_, member.value, "rule");
    if (rule == nullptr) return std::nullopt;
    auto read = ReadRegisteredRule(context_, *rule);
    if (!read) return std::nullopt;
    registration.rule = std::move(*read);
    if (const YamlNode* node = fields->Find("generation")) {
      registration.generation = ReadRegisteredRule(context_, *node);
      if (!registration.generation) return std::nullopt;
    }
    return registration;
  }

  void TakeStep(Registration step) {
    const std::string token = CanonicalToken(step.name);
    auto& all = file_.registrations;
    const auto [known, is_new] = steps_.emplace(token, all.size());
    const bool is_registered = !is_new && !all[known->second].unregister;
    if (step.unregister && !step.missing_ok && !is_registered) {
      file_.required.push_back(step);
    }
    if (is_new) {
      all.push_back(std::move(step));
      return;
    }
    Registration& at = all[known->second];
    if (is_registered && !step.unregister && !step.override_existing) {
      Finding finding;
      finding.code = &code::kDuplicateKey;
      finding.message = "logical axis `" + step.name + "` is registered twice";
      finding.place = step.place;
      finding.help = "write `override: true` to replace the first registration";
      finding.labels.push_back({at.place, "first registered here"});
      context_.findings.Add(std::move(finding));
      return;
    }
    // `step` replaces `at`, the earlier registration of the same name. A
    // registration of a built-in name without `override` is an error. The
    // resolver reports it for the registrations that remain, but `at` does not
    // remain, so `at` is checked here.
    if (is_registered && !at.override_existing &&
        FindToken(at.name) != nullptr) {
      context_.findings.Add(code::kDuplicateKey, at.place,
                            "logical axis `" + at.name + "` is built in",
                            "choose another name, or write `override: true`");
    }
    at = std::move(step);
  }

  void ReadBundles(const YamlNode& node) {
    if (!IsMap(node, "bundles", "bundles: {QKV: [[FSDP, SP], TP]}")) return;
    for (const YamlMember& member : node.members) {
      auto name =
          ReadKey(context_, member.key, code::kSchema, "the name of a bundle");
      if (!name) continue;
      auto bundle = ReadBundle(context_, member.value);
      if (!bundle) continue;
      bundle->name = std::move(*name);
      bundle->place = {context_.document.source(), member.key.begin,
                       std::max(member.key.end, member.value.end)};
      file_.bundles.push_back(std::move(*bundle));
    }
  }

  void ReadActivations(const YamlNode& node) {
    if (!IsMap(node, "activations",
               "activations: {hidden: [BATCH, QUERY_LENGTH, null]}")) {
      return;
    }
    for (const YamlMember& member : node.members) {
      auto name = ReadKey(context_, member.key, code::kSchema,
                          "the name of an activation");
      if (!name) continue;
      auto rule = ReadActivation(context_, member.value);
      if (!rule) continue;
      rule->name = std::move(*name);
      rule->place = {context_.document.source(), member.key.begin,
                     std::max(member.key.end, member.value.end)};
      file_.activations.push_back(std::move(*rule));
    }
  }

  void ReadRules(const YamlNode& node) {
    if (node.IsNull()) return;
    if (!node.IsSequence()) {
      context_.Add(code::kSchema, node,
                   "`rules` is " + Describe(node) + ", not a list of rules",
                   "begin each rule with `- match:`");
      return;
    }
    for (const YamlNode& item : node.items) {
      if (context_.findings.Full()) return;
      if (auto rule = ReadRule(context_, item)) {
        file_.rules.push_back(std::move(*rule));
      }
    }
  }

  void ReadModel(const YamlNode& node, std::optional<char> separator) {
    if (node.IsNull()) return;
    file_.has_model = true;
    auto own = ReadModelSection(context_, node);
    if (own == nullptr) return;
    ModelSection base;
    if (!own->extends.empty()) {
      const auto found = FindBase(own->extends, own->extends_place);
      if (found == nullptr) return;
      base = *found;
    }
    const size_t before = context_.findings.errors();
    auto merged = std::make_shared<ModelSection>(
        MergeSections(std::move(base), std::move(*own), context_.findings));
    if (context_.findings.errors() > before) return;
    const auto model = DescribeModel(*merged, context_.findings);
    if (model == nullptr) return;
    PatternSeparators found;
    for (const DescribedRole& role : model->roles) {
      found.Add(role.pattern.text);
    }
    model->separator = separator.value_or(found.slash ? '/' : '.');
    file_.model_section = std::move(merged);
    file_.model = model;
  }

  std::shared_ptr<const ModelSection> FindBase(const std::string& name,
                                               const Place& place) {
    if (base_) return base_(name, place);
    context_.findings.Add(
        code::kMissing, place,
        "the section `" + name + "` cannot be read where a file is read alone",
        "name the file in `rules`");
    return nullptr;
  }

  // Sets the separator of all rules. It is the separator that the file states,
  // or else the one that is inferred from the patterns.
  void GiveSeparator(std::optional<char> written) {
    PatternSeparators found;
    for (const Rule& rule : file_.rules) {
      found.Add(rule.match);
      if (rule.placement) found.Add(rule.placement->index_pattern);
    }
    for (Rule& rule : file_.rules) {
      rule.separator = written.value_or(found.dot && !found.slash ? '.' : '/');
      rule.separator_from = written ? SeparatorFrom::kFile : found.From();
    }
  }

  const YamlContext& context_;
  const ModelBase& base_;
  RuleFile file_;
  // Both maps are keyed by the canonical name of a logical axis. `tokens_` has
  // the spelling in the file, and `steps_` the index in file_.registrations.
  std::map<std::string, std::string> tokens_;
  std::map<std::string, size_t> steps_;
};

}  // namespace

std::optional<RuleFile> ParseRuleFile(SourceRef source, Findings& findings,
                                      const ModelBase& base) {
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  return RuleFileReader(context, base).Read();
}

}  // namespace shardc
