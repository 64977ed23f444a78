// Limits of what can be simulated, checked before anything is allocated.
#ifndef SHARDC_VERIFY_CASES_LIMITS_H_
#define SHARDC_VERIFY_CASES_LIMITS_H_

#include "model/mesh.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Returns whether batch, lengths, head counts and head size are positive, key
// heads divide heads, and the query length is at most the key length. If not,
// adds a usage finding.
bool CheckSizes(const Sizes& sizes, Findings& findings);
// Returns false, and adds a usage finding, if the mesh has too many devices, or
// if --full would need too many logits, elements or elements of pages.
bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LIMITS_H_
