// Sets the axis rule for KV heads in a pack, which depends on the model and the
// mesh. A pack is a rules file that is compiled into the program.
#ifndef SHARDC_PLAN_PACK_AXES_H_
#define SHARDC_PLAN_PACK_AXES_H_

#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"

namespace shardc {

// Returns whether the rules have the axis rule `kv_head: null` from a pack
// (rules inside the program). ChoosePackAxes() may remove this axis rule.
bool ChoosesByModel(const RuleSet& rules);

// Decides whether a pack with the axis rule `kv_head: null` replicates KV heads
// on this mesh. If the tensor-parallel axes have several devices and divide the
// model's number of KV heads, the axis rule is removed, and KV heads are
// sharded over these axes. Otherwise the axis rule is kept, or set again if a
// call for an earlier mesh has removed it. With `kv_replicate`, the rule is
// removed for any number of devices above 1, and the model's KV heads are set
// (FindKvHeads). Otherwise does nothing if the axis rule is not
// from a pack, if it names axes, or if `model` is null.
void ChoosePackAxes(RuleSet& rules, const ModelConfig* model, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_PLAN_PACK_AXES_H_
