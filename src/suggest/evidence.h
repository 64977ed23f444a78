// Describes, for the comment of a suggested rule, how certain the inferred role
// and layers of its parameters are, and why.
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
