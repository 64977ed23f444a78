// Parses the ops and the dimensions of a `model:` section.
#ifndef SHARDC_PARSE_MODEL_TEXT_H_
#define SHARDC_PARSE_MODEL_TEXT_H_

#include <memory>
#include <optional>
#include <string_view>

#include "model/model_description.h"
#include "parse/model_section.h"
#include "source/finding.h"

namespace shardc {

// Parses a dimension such as `n (p+r)`, in which `n`, `p` and `r` are names.
// Returns nullopt for other texts.
std::optional<DescribedDim> ParseDescribedDim(std::string_view text);

// Parses an op of the form `name[, name] = op(argument, ...) [@role] [if
// condition]`. Returns nullopt for other texts. The condition is stored as
// text.
std::optional<DescribedLine> ParseDescribedLine(std::string_view text);

// Returns whether the text is a single name, such as the name of a block.
bool IsModelWord(std::string_view text);

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

#endif  // SHARDC_PARSE_MODEL_TEXT_H_
