// Refuses a config.json whose sizes no program can have.
#ifndef SHARDC_PARSE_CHECK_MODEL_SIZES_H_
#define SHARDC_PARSE_CHECK_MODEL_SIZES_H_

#include "model/project.h"
#include "parse/config_fields.h"
#include "source/finding.h"

namespace shardc {

// The fields that sizes of a ModelConfig were read from; empty where the size
// comes from elsewhere.
struct SizeFields {
  ConfigField heads, kv_heads, head_dim, hidden, experts_per_token;
};

// Adds a finding at its field for each size that does not fit the others
// (model/legal_sizes.h), and for a hidden size that heads do not divide.
// `rotates`: the family applies rotary embeddings, even if no field has it.
void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_CHECK_MODEL_SIZES_H_
