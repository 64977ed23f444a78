// Writes facts about rules that are proven for all possible names, not only for
// the names of one manifest.
#ifndef SHARDC_EMIT_PLANS_RULE_PROOFS_H_
#define SHARDC_EMIT_PLANS_RULE_PROOFS_H_

#include <string>
#include <vector>

#include "match/proof/prover.h"
#include "model/rules.h"
#include "source/sink.h"

namespace shardc {

struct RuleProofs {
  std::vector<RuleProof> of_rules;  // one per rule
  RelatedRules related;
};

std::string RuleProofsText(const RuleSet& rules, const RuleProofs& proofs);
// Writes {"rules": [{"match", "source", "proof", "name", "covers": [{"rule",
// "name"}]}], "pairs": [{"first", "second", "relation", "both", "only_first",
// "only_second"}], "pairs_apart", "pairs_not_proven"}.
void WriteRuleProofsJson(const RuleSet& rules, const RuleProofs& proofs,
                         Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULE_PROOFS_H_
