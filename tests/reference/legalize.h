// eformer's automatic correction of specs, exactly: pad or cut to the rank;
// an entry with an axis that the mesh lacks, or whose product does not
// divide the dimension, becomes None as a whole; all None is the empty spec.
// Repeated axes survive it, and JAX then refuses the spec.
#ifndef SHARDC_TESTS_REFERENCE_LEGALIZE_H_
#define SHARDC_TESTS_REFERENCE_LEGALIZE_H_

#include <optional>
#include <span>

#include "model/mesh.h"
#include "reference/values.h"

namespace shardc::reference {

// get_corrected_named_sharding. An empty mesh is `no_mesh`, or the empty spec
// when `raise_mesh_error` is false. Errors: also `nested_tuple_in_spec`,
// `duplicate_mesh_axis`.
Result<PartitionSpec> CorrectedNamedSharding(const Shape& shape,
                                             std::span<const Value> spec,
                                             const Mesh& mesh,
                                             bool raise_mesh_error = true);

// with_sharding_constraint: nothing if the array is returned unchanged (an
// empty mesh or an empty spec).
Result<std::optional<PartitionSpec>> ShardingConstraint(
    const Shape& shape, std::span<const Value> spec, const Mesh& mesh);

// Returns why JAX does not shard an array by this spec: `spec_too_long`,
// `unknown_mesh_axis`, `duplicate_mesh_axis`, `indivisible`; nothing if it
// does.
std::optional<Error> Refusal(const PartitionSpec& spec, const Shape& shape,
                             const Mesh& mesh);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_LEGALIZE_H_
