// The changes of a rules file that a search tries: which axes shard KV heads,
// hidden states and the batch, and which weights are not sharded over data
// axes.
#ifndef SHARDC_SEARCH_RULE_CHANGES_H_
#define SHARDC_SEARCH_RULE_CHANGES_H_

#include <compare>
#include <optional>
#include <string>

#include "plan/compile.h"
#include "search/request.h"

namespace shardc::search {

struct RuleChanges {
  bool replicates_keys = false;     // KV heads are replicated over tp
  bool turns_hidden = false;        // toggles sharding of hidden states over tp
  bool batch_over_experts = false;  // tokens are sharded over experts' axis
  // Whether the weights of attention, or the embedding and the head, are not
  // sharded over data axes. Such weights need no gather before use, but more
  // memory.
  bool holds_attention = false, holds_ends = false;

  auto operator<=>(const RuleChanges&) const = default;
  // Returns whether published runs have used rules like these.
  bool Measured() const {
    return !replicates_keys && !holds_attention && !holds_ends;
  }
};

// Returns the file with the changes, or nullopt if a change does not apply to
// it. `all` is the result of compiling the file. With `in_place` the file must
// have only own rules, and these are changed. Otherwise changed copies of rules
// are added to the file.
std::optional<RulesFile> Changed(const RulesFile& file, const Compiled& all,
                                 const RuleChanges& changes, bool in_place);

// Returns the changes as text, such as "hidden states over tp, KV heads
// replicated"; empty without changes.
std::string ChangesText(const RuleChanges& changes, bool hidden_sharded);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_RULE_CHANGES_H_
