// Fits rules of packs to models whose layers are scanned.
#ifndef SHARDC_TARGET_SCANNED_RULES_H_
#define SHARDC_TARGET_SCANNED_RULES_H_

#include "model/manifest.h"
#include "model/rules.h"

namespace shardc {

// Inserts null into the specs of rules from packs, at the dimensions that count
// scanned layers (roles/layer_stacks.h). For each rule, these are the
// dimensions of the parameters that it is the first to match, except for
// undecided stacks. A rule is not changed if its spec would become longer than
// the rank of a parameter. If its parameters have different dimensions of
// layers, the rule becomes several rules, unless its pattern has `^`.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_TARGET_SCANNED_RULES_H_
