// Describes how certain the inferred role of a rule's parameters is, and why.
// If the parameters are stacked layers, also describes which dimension counts
// the layers. The text becomes part of the comment of a suggested rule.
#ifndef SHARDC_SUGGEST_EVIDENCE_H_
#define SHARDC_SUGGEST_EVIDENCE_H_

#include <cstdint>
#include <span>
#include <string>

#include "suggest/dims.h"

namespace shardc::suggest {

// Returns a text for the groups of one rule, such as "Confidence: high, by
// names and sizes; dimension 0 counts layers." The text states the lowest
// confidence of these groups.
std::string EvidenceText(const ModelDims& dims,
                         std::span<const uint32_t> groups);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_EVIDENCE_H_
