// Reads one rules file, but not the rules of the files that it extends. An
// inherited `model:` section is read, too.
#ifndef SHARDC_PARSE_RULE_FILE_H_
#define SHARDC_PARSE_RULE_FILE_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model_description.h"
#include "model/rules.h"
#include "parse/model_section.h"
#include "source/finding.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_PARSE_RULE_FILE_H_
