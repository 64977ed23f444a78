// What is proven of rules on all names, not only on those of one manifest.
#ifndef SHARDC_EMIT_PLANS_RULE_PROOFS_H_
#define SHARDC_EMIT_PLANS_RULE_PROOFS_H_

#include <span>
#include <string>

#include "match/proof/prover.h"
#include "model/rules.h"
#include "source/sink.h"

namespace shardc {

// A proof for each rule.
std::string RuleProofsText(const RuleSet& rules,
                           std::span<const RuleProof> proofs);
// {"rules": [{"match", "source", "proof", "name", "covers": [{"rule",
// "name"}]}]}
void WriteRuleProofsJson(const RuleSet& rules,
                         std::span<const RuleProof> proofs, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULE_PROOFS_H_
