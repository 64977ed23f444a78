// Reads the `model:` section of a rules file.
#ifndef SHARDC_PARSE_MODEL_SECTION_H_
#define SHARDC_PARSE_MODEL_SECTION_H_

#include <memory>
#include <optional>
#include <string_view>

#include "model/model_description.h"
#include "source/finding.h"
#include "yaml/fields.h"

namespace shardc {

// Returns null after findings. The caller sets the separator.
std::shared_ptr<ModelDescription> ReadModelSection(const YamlContext& context,
                                                   const YamlNode& node);

// Parses `n (p+r)`; nullopt if the text is not a dimension.
std::optional<DescribedDim> ParseDescribedDim(std::string_view text);
// Parses `name[, name] = op(argument, ...) [@role]`; nullopt if the text is not
// an op.
std::optional<DescribedLine> ParseDescribedLine(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_SECTION_H_
