// Changes axis rules of packs that depend on the model and the mesh.
#ifndef SHARDC_PLAN_PACK_AXES_H_
#define SHARDC_PLAN_PACK_AXES_H_

#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"

namespace shardc {

// Packs for models with one KV head replicate it (`kv_head: null`). If this
// model has several, and the axes of its heads divide their number on this
// mesh, removes that axis rule, so that KV heads are sharded as heads are. A
// rule in the user's own files stays. `model` may be null.
void ChoosePackAxes(RuleSet& rules, const ModelConfig* model, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_PLAN_PACK_AXES_H_
