// Refuses a config.json with sizes that do not fit each other.
#ifndef SHARDC_PARSE_CHECK_MODEL_SIZES_H_
#define SHARDC_PARSE_CHECK_MODEL_SIZES_H_

#include "model/project.h"
#include "parse/config_fields.h"
#include "source/finding.h"

namespace shardc {

// The fields from which sizes of a ModelConfig were read. A member is empty if
// no field of the file gives this size.
struct SizeFields {
  ConfigField heads, kv_heads, head_dim, hidden, experts_per_token;
};

// Adds a finding, placed at the field, for each size that does not fit the
// others (model/legal_sizes.h). Two other mistakes are findings: a hidden size
// that the number of heads does not divide, if no head size is given, and
// latent attention without the unrotated part of a head. `rotates` is whether
// the model's family applies rotary embeddings, even if no field mentions them.
void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_CHECK_MODEL_SIZES_H_
