// The numbers of shards into which a request's layouts split each dimension.
#ifndef SHARDC_VERIFY_CASES_SPLITS_H_
#define SHARDC_VERIFY_CASES_SPLITS_H_

#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

// The numbers of shards of query, key, bias and mask in every mode and layout
// that runs, and in the prefill of a cache. A policy may remove axes that do
// not divide a dimension. The numbers over the remaining axes are then
// included.
struct MeshSplits {
  // The numbers of shards on the given mesh and on the mesh on which the cases
  // run. Entries with the same index belong to the same axes.
  Splits given, used;
};
// Returns the numbers of shards. `resolver` must be made for the mesh `given`.
MeshSplits SplitsOf(const Request& request, const Resolver& resolver,
                    const Mesh& given, const Mesh& used);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SPLITS_H_
