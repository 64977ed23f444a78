// Merges a `model:` section with the section that it extends, and converts the
// result to a model description.
#ifndef SHARDC_PARSE_MODEL_MERGE_H_
#define SHARDC_PARSE_MODEL_MERGE_H_

#include <memory>

#include "model/model_description.h"
#include "parse/model_section.h"
#include "source/finding.h"

namespace shardc {

// Returns `base` with the entries of `own` merged into it. An entry of `own`
// replaces the entry of the same name and keeps its position. A null entry
// removes the entry of the same name. If there is none, this is a finding
// (unknown-name), except for settings. A new entry is inserted after the entry
// that precedes it in `own`. A new setting, or a new entry that is first in
// `own`, is appended. Lists of ops and `skip` are replaced, not merged.
ModelSection MergeSections(ModelSection base, ModelSection own,
                           Findings& findings);

// Converts a merged section to a model description. Replaces the name of a
// block in a list of ops by the ops of the block. Adds the roles of biases.
// Checks that dimensions and blocks exist. Returns null after findings: schema,
// unknown-name, cycle, limit. The caller sets `separator` (`/` or `.`, for the
// names of parameters) in the result.
std::shared_ptr<ModelDescription> DescribeModel(const ModelSection& section,
                                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_MERGE_H_
