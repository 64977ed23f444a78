// Fits rules of packs to trees whose layers are scanned.
#ifndef SHARDC_TARGET_SCANNED_RULES_H_
#define SHARDC_TARGET_SCANNED_RULES_H_

#include "model/manifest.h"
#include "model/rules.h"

namespace shardc {

// Inserts null into the specs of rules from packs, at the dimensions that count
// scanned layers (roles/layer_stacks.h). A rule gets the decided dimensions of
// the parameters that it is the first to match. A rule is not changed if its
// spec would become longer than a parameter's rank. A rule for parameters with
// different dimensions of layers becomes several rules, unless its pattern has
// `^`.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_TARGET_SCANNED_RULES_H_
