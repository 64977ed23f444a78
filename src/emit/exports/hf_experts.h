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

// Returns whether some experts are identities, as in LongCat-Flash: they return
// their input and have no tensors. `gate_up_proj` then has more experts than
// `down_proj`. The identity experts are in an inner module, which needs its own
// style. Without it, the hook of the module of all experts would sum the
// results of all devices, which are equal.
bool HasIdentityExperts(const HfModule& experts);

// Returns the styles of a module of experts. `packed` is true if the version of
// transformers has styles for tensors that hold two projections.
ExpertStyles StylesOfExperts(const HfModule& experts, bool packed);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_
