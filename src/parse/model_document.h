// Reads a model's config.json as a JSON document.
#ifndef SHARDC_PARSE_MODEL_DOCUMENT_H_
#define SHARDC_PARSE_MODEL_DOCUMENT_H_

#include <memory>
#include <string>

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns a document whose root is an object; null after findings. `NaN` and
// `Infinity` are accepted, because Python writes them although JSON does not
// allow them.
std::unique_ptr<const JsonDocument> ReadModelDocument(const std::string& path,
                                                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_DOCUMENT_H_
