// Corrects specs exactly as eformer does automatically. A spec is padded or
// truncated to the rank. An entry with an axis that the mesh lacks, or whose
// product of sizes does not divide the dimension, becomes None. If all entries
// are None, the spec is empty. Repeated axes are kept, and JAX then refuses the
// spec.
#ifndef SHARDC_TESTS_REFERENCE_LEGALIZE_H_
#define SHARDC_TESTS_REFERENCE_LEGALIZE_H_

#include <optional>
#include <span>

#include "model/mesh.h"
#include "reference/values.h"

namespace shardc::reference {

// Implements get_corrected_named_sharding. For an empty mesh it returns the
// error `no_mesh`, or the empty spec if `raise_mesh_error` is false. Other
// errors: `nested_tuple_in_spec`, `duplicate_mesh_axis`.
Result<PartitionSpec> CorrectedNamedSharding(const Shape& shape,
                                             std::span<const Value> spec,
                                             const Mesh& mesh,
                                             bool raise_mesh_error = true);

// Implements with_sharding_constraint. Returns nullopt if the array is returned
// unchanged, because the mesh or the spec is empty.
Result<std::optional<PartitionSpec>> ShardingConstraint(
    const Shape& shape, std::span<const Value> spec, const Mesh& mesh);

// Returns the reason why JAX does not shard an array by this spec
// (`spec_too_long`, `unknown_mesh_axis`, `duplicate_mesh_axis`, `indivisible`);
// nullopt if it does.
std::optional<Error> Refusal(const PartitionSpec& spec, const Shape& shape,
                             const Mesh& mesh);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_LEGALIZE_H_
