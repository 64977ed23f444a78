// Reads rules and specs, which have the form of rules files, from a call's
// input. A function that returns an optional returns nullopt after a finding.
#ifndef SHARDC_EVAL_INPUTS_H_
#define SHARDC_EVAL_INPUTS_H_

#include <optional>
#include <string_view>

#include "eval/call.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "model/spec.h"

namespace shardc::eval {

// Reads the member `rules`, which has the form of a rules file. If it is
// absent, returns the default rules. Rules cannot name packs here.
std::optional<RuleSet> RulesOf(Call& call);
// Reads a member that has the form of a rule's `spec`.
std::optional<SpecSource> SpecOf(Call& call, std::string_view key);
// Reads a spec of mesh axes: a list of nulls, names and lists of names.
std::optional<Spec> MeshSpecOf(Call& call, std::string_view key);
std::optional<Mode> ModeOf(Call& call, std::string_view key);

// Reads the member `mesh`. If it is absent or null, returns a mesh with every
// axis that the axis rules name, each of size 1.
Mesh MeshFor(Call& call, const AxisRules& axes);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_INPUTS_H_
