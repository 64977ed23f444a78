// Rules and specs that stand in a call's input as they do in files.
#ifndef SHARDC_EVAL_INPUTS_H_
#define SHARDC_EVAL_INPUTS_H_

#include <optional>
#include <string_view>

#include "eval/call.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "model/spec.h"

namespace shardc::eval {

// The member `rules`: a rules file's mapping, or none, which means the
// defaults. Packs are not known here.
std::optional<RuleSet> RulesOf(Call& call);
// A member that is written as a rule's `spec`.
std::optional<SpecSource> SpecOf(Call& call, std::string_view key);
// The spec of mesh axes that a member lists: nulls, names and lists of names.
std::optional<Spec> MeshSpecOf(Call& call, std::string_view key);
std::optional<Mode> ModeOf(Call& call, std::string_view key);

// The member `mesh`, or where it is absent a mesh of every axis that the axis
// rules name, each of size 1.
Mesh MeshFor(Call& call, const AxisRules& axes);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_INPUTS_H_
