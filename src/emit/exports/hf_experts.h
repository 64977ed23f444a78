// Chooses the styles of experts in a tensor parallel plan of transformers. The
// experts are the tensors of one module: `mlp.experts` with `gate_up_proj`
// [experts, 2 * inner, width] and `down_proj`.
#ifndef SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_
#define SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_

#include <map>
#include <string>

#include "emit/exports/hf_modules.h"

namespace shardc::exports {

struct ExpertStyles {
  // The style of the module that has the experts.
  std::string module;
  // The style of each tensor of the module, by the tensor's name.
  std::map<std::string, std::string> leaves;
  // The reason why no styles express the sharding; empty if some do.
  std::string reason;
  // True if the tensors are sharded over the experts, so that each device has
  // some of the experts.
  bool by_expert = false;
};

// Returns whether some experts are identities, as in LongCat-Flash: they return
// their input and have no tensors. `gate_up_proj` then has more experts than
// `down_proj`. transformers sums the results of the experts over the devices,
// but each device has the complete result of an identity expert. The identity
// experts are in a module inside the module of all experts. This inner module
// therefore needs its own style.
bool HasIdentityExperts(const HfModule& experts);

// Returns the styles of a module of experts. `packed` is true if the version of
// transformers has styles for tensors that hold two projections.
ExpertStyles StylesOfExperts(const HfModule& experts, bool packed);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_EXPERTS_H_
