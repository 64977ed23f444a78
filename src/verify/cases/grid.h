// Cases that cover every operation with meshes, modes, layouts, dtypes,
// groupings, masks and legal shardings; and random ones from a seed.
#ifndef SHARDC_VERIFY_CASES_GRID_H_
#define SHARDC_VERIFY_CASES_GRID_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// The axes that shard each dimension of an attention's tensors.
struct Assignment {
  AxisGroup batch, query_length, key_length, heads, key_heads, dim, value_dim;
};
// Returns the specs of all tensors in a layout; bias and mask follow query and
// key if `split_masks`, else only the batch.
exec::AttentionSpecs SpecsFor(Layout layout, const Assignment& axes,
                              int sinks_rank, bool split_masks);

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes);

// Returns case number `index` of seed `seed`: it is legal, so it must pass.
Case RandomCase(uint64_t seed, uint64_t index);

// Returns `ring train bthd BF16 dp=2 sp=2 B4 T16 S16 H8 K2 D16 causal`.
std::string CaseText(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_GRID_H_
