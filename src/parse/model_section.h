// The `model:` section of a rules file.
#ifndef SHARDC_PARSE_MODEL_SECTION_H_
#define SHARDC_PARSE_MODEL_SECTION_H_

#include <memory>
#include <optional>
#include <string_view>

#include "model/model_description.h"
#include "source/finding.h"
#include "yaml/fields.h"

namespace shardc {

// Null after findings. The separator is the reader's to set.
std::shared_ptr<ModelDescription> ReadModelSection(const YamlContext& context,
                                                   const YamlNode& node);

// `n (p+r)`; nothing where the text is no dimension.
std::optional<DescribedDim> ParseDescribedDim(std::string_view text);
// `name[, name] = op(argument, ...) [@role]`; nothing where it is none.
std::optional<DescribedLine> ParseDescribedLine(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_SECTION_H_
