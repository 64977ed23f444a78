// Reports KV heads that are on other devices than the query heads that use
// them. With grouped queries, several query heads share a KV head. A device has
// the KV heads of its query heads if KV heads are replicated, or if they are
// sharded over all or the first few of the query heads' axes:
//
//   query over [tp, sp], key over [tp]  ->  each device has both
//   query over [tp], key over [dp]      ->  KV heads are on other devices
//   query unsharded, key over [tp]      ->  KV heads are on other devices
#include <map>
#include <vector>

#include "comm/reshard.h"
#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

LintFinding Report(const Facts& facts, const Heads& heads,
                   const ModeSplit& query, const AxisGroup& key) {
  LintFinding finding = FindingAt(
      kHeadGroupsStraddle.code, AttentionPlace(facts, query.modes.front(),
                                               "key", kHeadsDim, query.place));
  finding.message = std::to_string(heads.heads / heads.kv_heads) +
                    " query heads share a KV head, and in " +
                    ModesText(facts, query) + " a device has " +
                    std::to_string(heads.heads / query.parts) +
                    " query heads over " + GroupText(query.axes) +
                    " and KV heads over " + GroupText(key);
  finding.help =
      "split KV heads over the axes of the query heads, or over the first of "
      "these axes";
  return finding;
}

// Reports KV heads that are sharded in modes in which no axis shards the query
// heads. A device then has all query heads, and only some of the KV heads.
void CheckUnshardedQueries(const Facts& facts, const Heads& heads,
                           FindingSink& sink) {
  for (ModeSplit key : SplitsOf(
           facts, "key", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    if (heads.kv_heads % key.parts != 0) continue;
    std::erase_if(key.modes, [&](Mode mode) {
      const AxisGroup query = AttentionAxes(facts, mode, "query", kHeadsDim);
      return facts.mesh().Parts(query).value_or(1) > 1;
    });
    if (key.modes.empty()) continue;
    LintFinding finding =
        FindingAt(kHeadGroupsStraddle.code,
                  AttentionPlace(facts, key.modes.front(), "query", kHeadsDim,
                                 key.place));
    finding.message = "in " + ModesText(facts, key) + " every device has all " +
                      std::to_string(heads.heads) + " query heads, and " +
                      std::to_string(heads.kv_heads / key.parts) + " of the " +
                      Counted(heads.kv_heads, "KV head") + " over " +
                      GroupText(key.axes);
    finding.help =
        "split the query heads over the axes of the KV heads, or leave the KV "
        "heads unsharded";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

void CheckHeadGroupsStraddle(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (heads && !facts.model()->latent_rank) {
    CheckUnshardedQueries(facts, *heads, sink);
  }
  if (!heads || heads->kv_heads == heads->heads ||
      heads->heads % heads->kv_heads != 0) {
    return;
  }
  for (const ModeSplit& split : SplitsOf(
           facts, "query", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    if (heads->heads % split.parts != 0) continue;
    // The query has the same axes in all modes of `split`, but the key may have
    // other axes in each mode. The modes are grouped by the key's axes.
    std::map<AxisGroup, std::vector<Mode>> by_key;
    for (Mode mode : split.modes) {
      by_key[AttentionAxes(facts, mode, "key", kHeadsDim)].push_back(mode);
    }
    for (const auto& [key, modes] : by_key) {
      if (IsPrefix(facts.mesh(), key, split.axes)) continue;
      ModeSplit same = split;
      same.modes = modes;
      sink.push_back(Report(facts, *heads, same, key));
    }
  }
}

}  // namespace shardc
