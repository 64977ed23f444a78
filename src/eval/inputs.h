// Reads rules and specs from a call's input, which is JSON with the keys of a
// rules file. A function that returns an optional returns nullopt after a
// finding.
#ifndef SHARDC_EVAL_INPUTS_H_
#define SHARDC_EVAL_INPUTS_H_

#include <optional>
#include <string_view>

#include "eval/call.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "model/spec.h"

namespace shardc::eval {

// Reads the member `rules`, which has the keys of a rules file but cannot
// extend a rule pack such as `builtin:llama/hf`. If the member is absent,
// returns the default rules.
std::optional<RuleSet> RulesOf(Call& call);
// Reads a member that is written like `spec:` of a rule, such as ["FSDP",
// "TP"].
std::optional<SpecSource> SpecOf(Call& call, std::string_view key);
// Reads a spec that names only mesh axes: a list of nulls, names and lists of
// names.
std::optional<Spec> MeshSpecOf(Call& call, std::string_view key);
std::optional<Mode> ModeOf(Call& call, std::string_view key);

// Reads the member `mesh`. If it is absent or null, returns a mesh that has
// every axis that the axis rules name; each axis has size 1.
Mesh MeshFor(Call& call, const AxisRules& axes);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_INPUTS_H_
