// Reads the `stages:` section (pipeline stages) of rules files and of the
// targets of a project.
#ifndef SHARDC_PARSE_STAGES_READ_H_
#define SHARDC_PARSE_STAGES_READ_H_

#include <optional>

#include "model/project.h"
#include "model/rules.h"
#include "source/finding.h"
#include "source/repository.h"
#include "yaml/read.h"

namespace shardc {

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

#endif  // SHARDC_PARSE_STAGES_READ_H_
