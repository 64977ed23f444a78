// Builds the specs of a case's tensors from the axes of each dimension.
#ifndef SHARDC_TESTS_VERIFY_CASES_GRID_H_
#define SHARDC_TESTS_VERIFY_CASES_GRID_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// The axes that shard each dimension of an attention's tensors.
struct Assignment {
  AxisGroup batch, query_length, key_length, heads, key_heads, dim, value_dim;
};
// Returns the specs of all tensors in a layout. With `split_masks`, the bias is
// sharded as the query's batch, heads and length, and the mask as the query's
// batch and length. Otherwise only the batch of both is sharded. The key
// dimension of both is never sharded.
exec::AttentionSpecs SpecsFor(Layout layout, const Assignment& axes,
                              int sinks_rank, bool split_masks);

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_CASES_GRID_H_
