// The committed plan against the one that the inputs give now.
#ifndef SHARDC_LINT_LOCKED_H_
#define SHARDC_LINT_LOCKED_H_

#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "source/source.h"

namespace shardc {

// Compares two plans in JSON, field by field, whatever their fingerprints say:
// the `committed` file, and what the inputs `give`. One finding for each thing
// that differs, folded over layers, at its place in the committed file; one
// note where the file says the same in other words (order, spacing,
// `source`); none where the bytes are the same. At most `limit`, and a last
// one that counts the rest. Errors in reading the file go to `errors`.
FindingSink CompareLocked(const SourceRef& given, const SourceRef& committed,
                          Findings& errors, size_t limit = 20);

}  // namespace shardc

#endif  // SHARDC_LINT_LOCKED_H_
