// Reads rules files depth first: the rules of a file, then the rules of the
// files that it extends. Each file is read once. A file is called nearer than
// the files that are read after it. The rules of a nearer file come first and
// therefore take precedence. Each axis rule, registered name and bundle is
// taken from the nearest file that has it:
//
//   a: {extends: b, axes: {batch: dp}}   b: {axes: {batch: fsdp, head: tp}}
//     ->  the rules of a, then the rules of b; batch: dp, head: tp
//
// It is an error if a file extends itself, directly or through other files. It
// is no error if two files extend the same file. The stack of open files
// distinguishes these cases.
#include "parse/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parse/keys.h"
#include "parse/spec_read.h"
#include "source/file.h"
#include "source/size.h"

namespace shardc {
namespace {

constexpr std::string_view kBuiltin = "builtin:";
constexpr size_t kFileLimit = 1000;
constexpr size_t kModelDepth = 16;

bool IsBuiltin(std::string_view name) { return name.starts_with(kBuiltin); }

class Collector {
 public:
  Collector(const PackLookup& packs, const FileTexts* texts,
            const Boundary& boundary, Findings& findings)
      : packs_(packs),
        texts_(texts),
        boundary_(boundary),
        findings_(findings) {}

  // Reads a file and the files that it extends. `place` is the entry in another
  // file that extends this file. It is empty for a file of the command line.
  void Visit(const std::string& name, const Place& place) {
    if (findings_.Full()) return;
    const FileId identity = IdentityOf(name);
    const auto open = std::find(stack_.begin(), stack_.end(), identity);
    if (open != stack_.end()) {
      findings_.Add(
          code::kCycle, place,
          "a file extends itself: " + Chain(names_, open - stack_.begin()),
          "remove this entry");
      return;
    }
    if (!seen_.insert(identity).second) return;
    if (seen_.size() > kFileLimit) {
      findings_.Add(code::kLimit, place,
                    "more than " + std::to_string(kFileLimit) + " rules files");
      return;
    }
    const RuleFile* const file = Parse(name, identity, place);
    if (file == nullptr) return;
    stack_.push_back(identity);
    names_.push_back(name);
    const auto extends = file->extends;
    Merge(*file);
    for (const RuleFile::Extension& extension : extends) {
      Visit(Resolve(name, extension.name), extension.place);
    }
    stack_.pop_back();
    names_.pop_back();
  }

  RuleSet Take() {
    for (const Rule& rule : set_.rules) {
      CheckSource(rule.spec);
      for (const auto& [mode, source] : rule.modes) CheckSource(source);
    }
    for (const ActivationRule& rule : set_.activations) {
      CheckSource(rule.spec);
      for (const auto& [mode, source] : rule.modes) CheckSource(source);
    }
    for (const Bundle& bundle : set_.bundles) {
      CheckRepeats(bundle.axes, tokens_, findings_);
    }
    for (const auto& [token, registration] : missing_) {
      findings_.Add(code::kReference, registration.place,
                    "`" + registration.name +
                        "` is unregistered, but no file registers it",
                    "remove `missing_ok: false` if it need not exist");
    }
    return std::move(set_);
  }

 private:
  static FileId IdentityOf(const std::string& name) {
    return IsBuiltin(name) || name == "auto" ? name : FileIdOf(name);
  }

  // Returns the names of a cycle, such as "`a` -> `b` -> `a`". They are the
  // names from index `from` on, followed by the first of them.
  static std::string Chain(const std::vector<std::string>& names,
                           ptrdiff_t from) {
    std::string out;
    for (auto name = names.begin() + from; name != names.end(); ++name) {
      out += "`" + *name + "` -> ";
    }
    return out + "`" + names[AsIndex(from)] + "`";
  }

  // Returns the parsed file, or null after a finding. A file is parsed only
  // once, even if one file extends its rules and another file its `model:`
  // section.
  const RuleFile* Parse(const std::string& name, const FileId& identity,
                        const Place& place) {
    if (const auto found = parsed_.find(identity); found != parsed_.end()) {
      return found->second ? &*found->second : nullptr;
    }
    const SourceRef source = Load(name, place);
    if (source == nullptr) return nullptr;
    models_.push_back(identity);
    model_names_.push_back(name);
    auto file = ParseRuleFile(source, findings_,
                              [&](const std::string& base, const Place& at) {
                                return ModelOf(Resolve(name, base), at);
                              });
    models_.pop_back();
    model_names_.pop_back();
    const auto& kept = parsed_[identity] = std::move(file);
    return kept ? &*kept : nullptr;
  }

  // Returns the `model:` section of the file `name`, which a section at `place`
  // extends. Returns null after a finding.
  std::shared_ptr<const ModelSection> ModelOf(const std::string& name,
                                              const Place& place) {
    const FileId identity = IdentityOf(name);
    const auto open = std::find(models_.begin(), models_.end(), identity);
    if (open != models_.end()) {
      findings_.Add(code::kCycle, place,
                    "a `model:` section extends itself: " +
                        Chain(model_names_, open - models_.begin()),
                    "remove this key");
      return nullptr;
    }
    if (models_.size() > kModelDepth) {
      findings_.Add(code::kLimit, place,
                    "more than " + std::to_string(kModelDepth) +
                        " `model:` sections extend each other",
                    "extend a section nearer to the first one");
      return nullptr;
    }
    const RuleFile* const file = Parse(name, identity, place);
    if (file == nullptr) return nullptr;
    if (!file->has_model) {
      findings_.Add(code::kReference, place,
                    "`" + name + "` has no `model:` section to extend",
                    "name a file that has one");
    }
    return file->model_section;
  }

  // Returns the path of `name`, which is written relative to the folder of
  // `file`. A built-in rule pack has no folder, so names in it are not changed.
  static std::string Resolve(const std::string& file, const std::string& name) {
    if (IsBuiltin(name) || IsBuiltin(file) || file == "auto") return name;
    return PathNextTo(file, name);
  }

  SourceRef Load(const std::string& name, const Place& place) {
    if (IsBuiltin(name) || name == "auto") {
      SourceRef source = packs_ ? packs_(name) : nullptr;
      if (source == nullptr) {
        findings_.Add(code::kReference, place,
                      "there is no rule pack `" + name + "`",
                      "`shardc show rules` lists the packs");
      }
      return source;
    }
    if (!boundary_.Holds(name)) {
      findings_.Add(
          code::kPath, place.source ? place : Place{MakeSource(name, {})},
          "a rules file leads out of the project's repository: `" + name + "`",
          std::string(kOutsideHelp));
      return nullptr;
    }
    Findings own;
    SourceRef source = ReadSource(name, texts_, own);
    findings_.NoteReadsOf(own);
    const bool pack = packs_ && packs_("builtin:" + name) != nullptr;
    for (Finding finding : own.all()) {
      // If the file cannot be read, the finding points to the entry that names
      // the file.
      if (source == nullptr && place.source != nullptr) {
        finding.place = place;
        finding.help = "paths are relative to the file that holds them";
      }
      if (source == nullptr && pack) {
        finding.help = "the pack is written `builtin:" + name + "`";
      }
      findings_.Add(std::move(finding));
    }
    return source;
  }

  // Adds a file to the merged set. Files that were merged earlier take
  // precedence, so values that they set are kept.
  void Merge(const RuleFile& file) {
    set_.sources.push_back(file.source);
    const size_t earlier = set_.rules.size();
    set_.rules.insert(set_.rules.end(), file.rules.begin(), file.rules.end());
    // A policy of an earlier file is about the rules of this one too, also
    // where they have a policy of their own: `illegal: pad` above a pack pads.
    for (size_t i = earlier; i < set_.rules.size(); ++i) {
      Rule& rule = set_.rules[i];
      if (rule.illegal && set_.policy.illegal) rule.illegal.reset();
      if (rule.min_size && set_.policy.min_size) rule.min_size.reset();
    }
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      if (set_.axes.given[i] || !file.axes.given[i]) continue;
      set_.axes.given[i] = file.axes.given[i];
      set_.axes_places[i] = file.axes_places[i];
    }
    std::vector<const Registration*> required;
    for (const Registration& step : file.required) {
      if (named_.count(CanonicalToken(step.name)) == 0) {
        required.push_back(&step);
      }
    }
    for (const Registration& registration : file.registrations) {
      const std::string token = CanonicalToken(registration.name);
      if (!registration.unregister) missing_.erase(token);
      if (!named_.insert(token).second) continue;
      if (registration.unregister) continue;
      tokens_.insert(token);
      set_.registrations.push_back(registration);
    }
    for (const Registration* step : required) {
      missing_.emplace(CanonicalToken(step->name), *step);
    }
    for (const Bundle& bundle : file.bundles) {
      if (bundles_.insert(bundle.name).second) {
        set_.bundles.push_back(bundle);
      }
    }
    for (const ActivationRule& rule : file.activations) {
      if (activations_.insert(rule.name).second) {
        set_.activations.push_back(rule);
      }
    }
    if (set_.model == nullptr) set_.model = file.model;
    if (!set_.weight_decay_exclude) {
      set_.weight_decay_exclude = file.weight_decay_exclude;
    }
    Policy& policy = set_.policy;
    if (!policy.unmatched) policy.unmatched = file.policy.unmatched;
    if (!policy.illegal) policy.illegal = file.policy.illegal;
    if (!policy.min_size) policy.min_size = file.policy.min_size;
    if (!policy.compat) policy.compat = file.policy.compat;
    if (!policy.kv_replicate) policy.kv_replicate = file.policy.kv_replicate;
  }

  void CheckSource(const SpecSource& source) {
    if (const auto* list = std::get_if<SpecList>(&source)) {
      CheckRepeats(*list, tokens_, findings_);
    }
  }

  const PackLookup& packs_;
  const FileTexts* texts_;  // may be null
  const Boundary& boundary_;
  Findings& findings_;
  RuleSet set_;
  // The identities of the files being read. Each file extends the next one.
  std::vector<std::string> stack_;
  // The names of the files in `stack_`, for messages.
  std::vector<std::string> names_;
  std::set<std::string> seen_;
  std::map<FileId, std::optional<RuleFile>> parsed_;
  // The files whose `model:` sections are being parsed. Each file's section
  // extends the section of the next file.
  std::vector<FileId> models_;
  std::vector<std::string> model_names_;
  // The canonical names of the logical axes that the merged files register.
  TokenSet tokens_;
  // All names that a merged file registers or unregisters.
  TokenSet named_;
  // Names that a file unregisters with `missing_ok: false`, and that no file
  // has registered so far.
  std::map<std::string, Registration, std::less<>> missing_;
  std::set<std::string> bundles_;
  std::set<std::string> activations_;
};

}  // namespace

std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors,
                                 const FileTexts* texts,
                                 const Boundary& boundary) {
  const size_t before = findings.errors();
  Collector collector(packs, texts, boundary, findings);
  for (const std::string& file : files) collector.Visit(file, {});
  RuleSet set = collector.Take();
  if (findings.errors() > before) {
    if (despite_errors != nullptr) *despite_errors = std::move(set);
    return std::nullopt;
  }
  return set;
}

// Reads the policies of a rules file, and the patterns of the parameters that
// are excluded from weight decay. Most policies are one of a few words, such as
// `shrink`. If a key is absent, its value stays empty, so that another rules
// file can set it:
//
//   policy: {illegal: shrink}  ->  `illegal` is shrink, `unmatched` stays empty

std::optional<IllegalPolicy> ReadIllegal(const YamlContext& context,
                                         const YamlNode& node) {
  static constexpr std::array<std::string_view, 4> kChoices = {"error", "drop",
                                                               "shrink", "pad"};
  const auto choice = ReadChoice(context, node, "`illegal`", kChoices);
  if (!choice) return std::nullopt;
  constexpr std::array<IllegalPolicy, 4> kValues = {
      IllegalPolicy::kError, IllegalPolicy::kDrop, IllegalPolicy::kShrink,
      IllegalPolicy::kPad};
  return kValues[*choice];
}

std::optional<int64_t> ReadMinSize(const YamlContext& context,
                                   const YamlNode& node) {
  return ReadInteger(context, node, "`min_size`", {0});
}

Policy ReadPolicy(const YamlContext& context, const YamlNode& node) {
  Policy policy;
  if (node.IsNull()) return policy;
  const auto fields = Fields::Read(context, node, keys::kPolicy);
  if (!fields) return policy;
  if (const YamlNode* unmatched = fields->Find("unmatched")) {
    static constexpr std::array<std::string_view, 2> kChoices = {"error",
                                                                 "replicate"};
    const auto choice =
        ReadChoice(context, *unmatched, "`unmatched`", kChoices);
    if (choice) {
      policy.unmatched =
          *choice == 0 ? UnmatchedPolicy::kError : UnmatchedPolicy::kReplicate;
    }
  }
  if (const YamlNode* illegal = fields->Find("illegal")) {
    policy.illegal = ReadIllegal(context, *illegal);
  }
  if (const YamlNode* min_size = fields->Find("min_size")) {
    policy.min_size = ReadMinSize(context, *min_size);
  }
  if (const YamlNode* compat = fields->Find("compat")) {
    static constexpr std::array<std::string_view, 3> kChoices = {
        "none", "eformer", "fjformer"};
    const auto choice = ReadChoice(context, *compat, "`compat`", kChoices);
    constexpr std::array<Compat, 3> kValues = {Compat::kNone, Compat::kEformer,
                                               Compat::kFjformer};
    if (choice) policy.compat = kValues[*choice];
  }
  return policy;
}

WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node) {
  if (node.IsNull()) return std::nullopt;
  const auto fields = Fields::Read(context, node, keys::kWeightDecay);
  if (!fields) return std::nullopt;
  const YamlNode* exclude = fields->Find("exclude");
  if (exclude == nullptr || exclude->IsNull()) return std::nullopt;
  const auto texts = ReadTexts(context, *exclude, "`exclude`");
  if (!texts) return std::nullopt;
  std::vector<NamePattern> out;
  for (size_t i = 0; i < texts->size(); ++i) {
    const YamlNode& item = exclude->IsSequence() ? exclude->items[i] : *exclude;
    out.push_back({(*texts)[i], context.document.PlaceOf(item)});
  }
  return out;
}

}  // namespace shardc
