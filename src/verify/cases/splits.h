// Into how many shards a request's layouts split each dimension.
#ifndef SHARDC_VERIFY_CASES_SPLITS_H_
#define SHARDC_VERIFY_CASES_SPLITS_H_

#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

// Covers every mode and layout that runs, a cache's prefill among them, and
// every tensor; also the splits that a policy shrinks another split to.
struct MeshSplits {
  // The numbers of shards on the mesh given and on the mesh that is used. Both
  // lists have the same axes at the same index.
  Splits given, used;
};
// `resolver` is that of the mesh given.
MeshSplits SplitsOf(const Request& request, const Resolver& resolver,
                    const Mesh& given, const Mesh& used);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SPLITS_H_
