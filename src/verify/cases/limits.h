// Limits on what can be simulated. They are checked before memory is allocated.
#ifndef SHARDC_VERIFY_CASES_LIMITS_H_
#define SHARDC_VERIFY_CASES_LIMITS_H_

#include "model/mesh.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Returns true if batch, lengths, head counts and head size are positive, key
// heads divide query heads, and the query length is at most the key length.
// Otherwise adds a usage finding (a reported error) and returns false.
bool CheckSizes(const Sizes& sizes, Findings& findings);
// Returns true if the request can be simulated. Returns false, and adds a usage
// finding, if the mesh has too many devices. With --full, cases run at the
// user's sizes. Then also returns false if there are too many logits, too many
// elements of query, key and value, or too many elements in pages.
bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LIMITS_H_
