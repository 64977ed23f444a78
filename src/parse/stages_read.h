// Reads the `stages:` section of rules files and of the targets of a project.
#ifndef SHARDC_PARSE_STAGES_READ_H_
#define SHARDC_PARSE_STAGES_READ_H_

#include <optional>

#include "model/project.h"
#include "model/rules.h"
#include "model/stages.h"
#include "source/boundary.h"
#include "source/finding.h"
#include "yaml/fields.h"

namespace shardc {

// Reads a section; the path of a schedule is made relative to the working
// directory. Returns nullopt for null, and after a finding.
std::optional<StageDeclaration> ReadStages(const YamlContext& context,
                                           const YamlNode& node);

// Returns whether the schedule is a name, or a file inside of `boundary`.
// Otherwise adds a finding and returns false.
bool ScheduleIsInside(const StageDeclaration& stages, const Boundary& boundary,
                      Findings& findings);

// Reads the section of a rules file as ReadStages does. The section must have
// the key `axis`.
std::optional<StageDeclaration> ReadRulesStages(const YamlContext& context,
                                                const YamlNode& node);

// Returns the stages of a target. Keys that its section in the project lacks
// are taken from the nearest rules file with a section. Returns nullopt if
// neither has a section, and after a finding. Errors in one section have
// already been reported. The findings here are a missing axis, and a schedule's
// file outside of `boundary`.
std::optional<StageDeclaration> DeclaredStages(const Target& target,
                                               const RuleSet& rules,
                                               const Boundary& boundary,
                                               Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_STAGES_READ_H_
