// Decides whether a plan is legal for a model, its batch and its lengths.
#ifndef SHARDC_COST_LEGALITY_H_
#define SHARDC_COST_LEGALITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "cost/settings.h"
#include "plan/compile.h"

namespace shardc::cost {

// A number of heads that the axes which shard the heads do not divide.
struct UnevenHeads {
  bool kv = false;  // true if `heads` are KV heads
  int64_t heads = 0;
  AxisGroup axes;
  int64_t parts = 1;  // the product of the axes' sizes
};

// Returns up to two entries: one for the query heads if the axes that shard
// them do not divide the number of query heads, and one for the KV heads if the
// axes that shard them do not divide the number of KV heads. Returns no entries
// without a model, or if the model does not define its heads.
std::vector<UnevenHeads> UnevenHeadsOf(const CostInputs& work);

// Returns for example `"tp" of 8 does not divide the 2 KV heads`.
std::string UnevenText(const UnevenHeads& one);

// Drops or shrinks axes that do not divide the heads in the specs of attention,
// as the policy for illegal specs requires. The policies `error` and `pad`
// change nothing.
void DropUnevenHeads(const Compiled& compiled, CostInputs& work);
// Drops axes that do not divide the heads in the specs of attention. The plan
// was read from a file, which does not contain the policy for illegal specs.
// Adds a note if query heads are affected, and a note if KV heads are affected.
void DropUnevenHeadsOfFile(CostInputs& work);

// Returns a text for each number of rows or tokens that its axes or the
// micro-batches do not divide, such as `9 rows are not divisible by 8`.
std::vector<std::string> UnevenTokensOf(const CostInputs& work,
                                        const Settings& settings);

// Returns why a mesh is illegal for a target; empty if it is legal.
std::vector<std::string> ReasonsAgainst(const Compiled& compiled,
                                        const CostInputs& work,
                                        const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_LEGALITY_H_
