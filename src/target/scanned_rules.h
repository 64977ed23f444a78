// Fits rules of packs to trees whose layers are scanned.
#ifndef SHARDC_TARGET_SCANNED_RULES_H_
#define SHARDC_TARGET_SCANNED_RULES_H_

#include "model/manifest.h"
#include "model/rules.h"

namespace shardc {

// Inserts null into the specs of rules from packs, at the dimensions of the
// manifest's parameters that count scanned layers (roles/layer_stacks.h). Rules
// from files are not changed, nor are rules of a pack whose spec would become
// longer than the parameter's rank. A rule that matches parameters with
// different dimensions of layers becomes several rules, unless its pattern has
// `^`.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_TARGET_SCANNED_RULES_H_
