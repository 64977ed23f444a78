// Rules of packs for trees whose layers are scanned.
#ifndef SHARDC_TARGET_SCANNED_RULES_H_
#define SHARDC_TARGET_SCANNED_RULES_H_

#include "model/manifest.h"
#include "model/rules.h"

namespace shardc {

// Inserts null into the specs of rules from packs at the dimensions of the
// manifest's parameters that count scanned layers (roles/layer_stacks.h).
// Rules from files stay as they are written, and so does a pack's rule whose
// spec has no room for another dimension. A rule that matches parameters with
// different dimensions of layers becomes several rules.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_TARGET_SCANNED_RULES_H_
