// Reports sizes in a config.json that contradict each other.
#ifndef SHARDC_PARSE_CHECK_MODEL_SIZES_H_
#define SHARDC_PARSE_CHECK_MODEL_SIZES_H_

#include "model/project.h"
#include "parse/config_fields.h"
#include "source/finding.h"

namespace shardc {

// The fields of a config.json from which sizes of a ModelConfig were read. A
// member is empty if no field of the file states this size.
struct SizeFields {
  ConfigField heads, kv_heads, head_dim, hidden, experts_per_token;
};

// Adds a finding, placed at the field, for each size that contradicts another
// size (model/legal_sizes.h). Also adds a finding if the number of heads does
// not divide the hidden size, unless a head size is given. Also adds a finding
// if latent attention lacks the size of the unrotated part of a head. `rotates`
// states whether the model's family applies rotary embeddings, even if no field
// mentions them.
void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_CHECK_MODEL_SIZES_H_
