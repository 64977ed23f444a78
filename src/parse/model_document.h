// A model's config.json as a document.
#ifndef SHARDC_PARSE_MODEL_DOCUMENT_H_
#define SHARDC_PARSE_MODEL_DOCUMENT_H_

#include <memory>
#include <string>

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Its root is an object; Python's words for what JSON cannot say are read.
// Null after findings.
std::unique_ptr<const JsonDocument> ReadModelDocument(const std::string& path,
                                                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_DOCUMENT_H_
