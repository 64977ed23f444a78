// Reads one rules file section by section. If the file extends other files,
// only their names are stored. The exception is an inherited `model:` section,
// which is merged at once: the caller's function ModelBase returns it. Each
// rule gets the separator of the file. If the file does not state the
// separator, it is inferred from the patterns. For example:
//
//   {rules: [{match: 'attn\.wq', spec: [tp]}]}
//     ->  one rule [tp] for names with `.` between their parts
#include "parse/rule_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "parse/keys.h"
#include "parse/model_merge.h"
#include "parse/model_section.h"
#include "parse/policy_read.h"
#include "parse/rule_read.h"
#include "parse/spec_read.h"
#include "parse/stages_read.h"
#include "source/wording.h"
#include "yaml/error.h"
#include "yaml/read.h"

namespace shardc {
namespace {

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
        context_.Add(
            code::kDuplicateKey, member.key,
            "`" + written + "` and `" + same->second + "` are the same token",
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
      finding.message = "token `" + step.name + "` is registered twice";
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
                            "token `" + at.name + "` is built in",
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
