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
// replaces the entry of the same name, at the position of the replaced entry. A
// null entry removes the entry of the same name. An entry with a new name is
// inserted after the entry that precedes it in `own`, or at the end if no entry
// precedes it. A null entry with a new name is a finding (unknown-name), unless
// it is a setting. Lists of ops and `skip` are replaced, not merged.
ModelSection MergeSections(ModelSection base, ModelSection own,
                           Findings& findings);

// Converts a merged section to a model description. Inserts the blocks that
// lists of ops name, and the roles of biases. Checks that dimensions and blocks
// exist. Returns null after findings: schema, unknown-name, cycle, limit. The
// caller sets the separator.
std::shared_ptr<ModelDescription> DescribeModel(const ModelSection& section,
                                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_MERGE_H_
