// The changes of a rules file that a search tries. They change which axes shard
// KV heads, hidden states and the batch, or keep some weights unsharded over
// data axes.
#ifndef SHARDC_SEARCH_RULE_CHANGES_H_
#define SHARDC_SEARCH_RULE_CHANGES_H_

#include <compare>
#include <optional>
#include <string>

#include "plan/compile.h"
#include "search/request.h"

namespace shardc::search {

struct RuleChanges {
  bool replicates_keys = false;  // whether KV heads are replicated over tp
  // Whether to reverse how hidden states are sharded over tp: unsharded ones
  // become sharded, and sharded ones unsharded.
  bool turns_hidden = false;
  bool batch_over_experts = false;  // whether the expert axis shards the batch
  // Whether tp distributes whole experts too, and does not divide an expert, as
  // Megatron does with an expert tensor parallelism of 1.
  bool whole_experts = false;
  // Whether the weights of attention, or the embedding and the output head, are
  // not sharded over data axes. Such weights are not gathered before use, but
  // need more memory.
  bool holds_attention = false, holds_ends = false;

  auto operator<=>(const RuleChanges&) const = default;
  // Returns whether published runs have used rules with these changes.
  bool Measured() const {
    return !replicates_keys && !holds_attention && !holds_ends;
  }
};

// Returns the file with the changes, or nullopt if a change does not apply to
// the file. `all` is the result of compiling the file. If `in_place` is true,
// the rules of the file are changed, and the file must not extend other rules.
// Otherwise changed copies of rules are added to the file.
std::optional<RulesFile> Changed(const RulesFile& file, const Compiled& all,
                                 const RuleChanges& changes, bool in_place);

// Returns the changes as a text, such as "hidden states sharded over tp, KV
// heads replicated over tp"; empty if there are no changes. `hidden_sharded`
// states whether hidden states are sharded over tp before the change.
std::string ChangesText(const RuleChanges& changes, bool hidden_sharded);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_RULE_CHANGES_H_
