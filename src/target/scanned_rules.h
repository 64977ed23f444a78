// Changes the rules of packs to fit models whose layers are scanned.
#ifndef SHARDC_TARGET_SCANNED_RULES_H_
#define SHARDC_TARGET_SCANNED_RULES_H_

#include "model/manifest.h"
#include "model/rules.h"

namespace shardc {

// Inserts null into the specs of rules that come from packs, at the dimensions
// that count scanned layers (roles/layer_stacks.h). The dimensions are those of
// the parameters that a rule is the first to match. Stacks that are only
// suspected (undecided) are ignored. A rule is not changed if its spec would
// become longer than the rank of a parameter. If its parameters have different
// dimensions of layers, the rule becomes several rules, unless its pattern has
// `^`.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_TARGET_SCANNED_RULES_H_
