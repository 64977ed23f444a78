// Reads rules files, together with the files that they extend.
#ifndef SHARDC_PARSE_RULES_H_
#define SHARDC_PARSE_RULES_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "model/project.h"
#include "model/rules.h"
#include "parse/model_section.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/repository.h"
#include "yaml/read.h"

namespace shardc {

// The help text of a finding about a path that leads out of the project's
// repository.
inline constexpr std::string_view kOutsideHelp =
    "paths stay inside the folder that holds `.git`, or without one inside the "
    "project's folder; if you trust the project, pass `--allow-outside`";

// A function that returns the source of a built-in rule pack, or null. `name`
// is as written: `builtin:llama`, `builtin:llama/hf`, or `auto`. A pack may
// have one source for flax names of parameters and one for hf names. If `name`
// does not end in `/flax` or `/hf`, the function usually selects the source
// that fits the names in the manifest.
using PackLookup = std::function<SourceRef(std::string_view name)>;

// Reads each file and then the files that it extends, depth first. A file that
// is reached twice is read once. A file takes precedence over all files that
// are read later: the first value of each setting is used. A file that extends
// itself is a finding (cycle). All files must be inside `boundary`. `texts`, if
// not null, has texts that replace the content of files, such as an editor's
// unsaved buffers. Returns nullopt after an error. `despite_errors`, if not
// null, then receives the parts that could be read, so that their patterns can
// be checked, too.
std::optional<RuleSet> ReadRules(std::span<const std::string> files,
                                 const PackLookup& packs, Findings& findings,
                                 RuleSet* despite_errors = nullptr,
                                 const FileTexts* texts = nullptr,
                                 const Boundary& boundary = {});

// Reads a single spec in the form of a rule's `spec`. The form `{like: ...}` is
// not accepted. Returns nullopt after a finding.
std::optional<SpecSource> ParseSpec(SourceRef source, Findings& findings);

struct RuleFile {
  struct Extension {
    std::string name;  // as written: a path or `builtin:NAME`
    Place place;
  };
  SourceRef source;
  std::vector<Extension> extends;
  std::vector<Rule> rules;
  AxisRules axes;
  std::array<Place, kAxisRuleCount> axes_places;
  std::vector<Registration> registrations;
  // Entries of `register` that unregister a name with `missing_ok: false`,
  // although no earlier entry of this file registers it. A file that is read
  // later, such as one that this file extends, must register the name, unless a
  // file that was read before has an entry for it.
  std::vector<Registration> required;
  std::vector<Bundle> bundles;
  std::vector<ActivationRule> activations;
  Policy policy;
  WeightDecayExclusions weight_decay_exclude;
  bool has_model = false;  // whether the file has a `model:` section
  // The `model:` section, merged with the sections that it extends, and the
  // model description made from it. Both are null if there is no section, or
  // after a finding.
  std::shared_ptr<const ModelSection> model_section;
  std::shared_ptr<const ModelDescription> model;
};

// A function that returns the merged `model:` section of the file `name`. It is
// called if the section at `place` extends that section. `name` is as written
// at `place`. The function returns null after a finding.
using ModelBase = std::function<std::shared_ptr<const ModelSection>(
    const std::string& name, const Place& place)>;

// Reads a rules file. Returns nullopt if it is not a YAML mapping. After other
// findings, returns the parts that could be read. If `base` is empty, a
// `model:` section that extends another section is a finding (missing).
std::optional<RuleFile> ParseRuleFile(SourceRef source, Findings& findings,
                                      const ModelBase& base = {});

Policy ReadPolicy(const YamlContext& context, const YamlNode& node);
std::optional<IllegalPolicy> ReadIllegal(const YamlContext& context,
                                         const YamlNode& node);
std::optional<int64_t> ReadMinSize(const YamlContext& context,
                                   const YamlNode& node);

// Reads the exclusions from weight decay, such as `weight_decay: {exclude:
// ['norm', 'bias$']}`. Returns nullopt if `exclude` is absent or null, or after
// a finding.
WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node);

// Reads the `stages:` section (pipeline stages) of rules files and of the
// targets of a project.

// Reads a section `stages`. The path of a schedule's file is made relative to
// the working directory. Returns nullopt if the section is null, or after a
// finding.
std::optional<StageDeclaration> ReadStages(const YamlContext& context,
                                           const YamlNode& node);

// Returns true if the schedule is a name, or a file inside `boundary`.
// Otherwise adds a finding and returns false.
bool ScheduleIsInside(const StageDeclaration& stages, const Boundary& boundary,
                      Findings& findings);

// Reads the section of a rules file as ReadStages does. In a rules file, the
// section must have the key `axis`.
std::optional<StageDeclaration> ReadRulesStages(const YamlContext& context,
                                                const YamlNode& node);

// Returns the stages of a target. They are read from the target's section in
// the project file. Missing keys are taken from the first of the rules files
// that has a section `stages`. Returns nullopt if no file has a section, or
// after a finding. Errors inside a section have already been reported. The
// findings here are a missing axis, and a schedule's file outside `boundary`.
std::optional<StageDeclaration> DeclaredStages(const Target& target,
                                               const RuleSet& rules,
                                               const Boundary& boundary,
                                               Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULES_H_
