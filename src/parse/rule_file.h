// Reads one rules file, without the files that it extends.
#ifndef SHARDC_PARSE_RULE_FILE_H_
#define SHARDC_PARSE_RULE_FILE_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model_description.h"
#include "model/rules.h"
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
  std::vector<Bundle> bundles;
  Policy policy;
  WeightDecayExclusions weight_decay_exclude;
  std::shared_ptr<const ModelDescription> model;  // null: none
};

// Returns nullopt if the file is no YAML mapping. After other findings, returns
// the parts that could be read.
std::optional<RuleFile> ParseRuleFile(SourceRef source, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULE_FILE_H_
