// The styles of experts that are tensors of one module: `mlp.experts` with
// `gate_up_proj` [experts, 2 * inner, width] and `down_proj`.
#ifndef SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_
#define SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_

#include <map>
#include <string>

#include "emit/exports/hf_modules.h"

namespace shardc::exports {

struct ExpertStyles {
  std::string module;                         // style of the module
  std::map<std::string, std::string> leaves;  // styles by tensor name
  std::string reason;      // the reason if no styles express the sharding
  bool by_expert = false;  // each device has some of the experts
};

// Returns whether some experts return their input and have no tensors, as in
// LongCat-Flash. Such experts exist if `gate_up_proj` has more experts than
// `down_proj`. They are in a module inside the module of all experts, and this
// inner module needs its own style. Without it, the hook of the outer module
// would sum the results of all devices, which are equal.
bool HasIdentityExperts(const HfModule& experts);

// Returns the styles of a module of experts. `packed` is true if the version of
// transformers has styles for tensors that hold two projections.
ExpertStyles StylesOfExperts(const HfModule& experts, bool packed);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_
