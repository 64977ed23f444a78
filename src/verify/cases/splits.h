// The numbers of shards into which a request's layouts split each dimension.
#ifndef SHARDC_VERIFY_CASES_SPLITS_H_
#define SHARDC_VERIFY_CASES_SPLITS_H_

#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

// The splits of query, key, bias and mask in every mode and layout that runs,
// and in the prefill of a cache. They include the splits that remain if a
// policy removes axes.
struct MeshSplits {
  // The numbers of shards on the given mesh and on the mesh that is used. Both
  // lists have the same axes at the same index.
  Splits given, used;
};
// Returns the splits. `resolver` must be made for the mesh `given`.
MeshSplits SplitsOf(const Request& request, const Resolver& resolver,
                    const Mesh& given, const Mesh& used);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SPLITS_H_
