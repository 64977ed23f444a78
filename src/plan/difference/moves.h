// Computes the cost of changing a parameter's spec: the bytes held before and
// after, and the collective that reshards the parameter.
#ifndef SHARDC_PLAN_DIFFERENCE_MOVES_H_
#define SHARDC_PLAN_DIFFERENCE_MOVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "comm/joint_mesh.h"
#include "comm/reshard.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

// Returns the bytes that a device holds of one parameter, if it holds any.
// Returns nullopt if the shape or dtype is unknown, or if the number does not
// fit in 64 bits.
std::optional<int64_t> BytesHeld(const Mesh& mesh, const TensorType& type,
                                 const Spec& spec);

// The collective that reshards a parameter, and the bytes that the busiest
// device sends.
struct MoveCost {
  std::optional<SpecMove> move;
  std::optional<int64_t> sent_bytes_per_device;
};

// Computes the costs of resharding from one mesh to another. The cost of each
// combination of type and specs is computed once, because a model has many
// layers and few such combinations.
class MoveCosts {
 public:
  MoveCosts(const Mesh& before, const Mesh& after);

  // Returns the cost of resharding one parameter. Both members are nullopt in
  // these cases: every device already holds what it needs, the meshes have
  // different numbers of devices, the shape is unknown, or a spec has more
  // entries than the shape has dimensions. Only the bytes are nullopt if the
  // dtype is unknown or if the bytes overflow. Shards may be uneven.
  const MoveCost& Of(const TensorType& type, const Spec& before,
                     const Spec& after);
  // Returns the cost of resharding a parameter of which a dimension is sharded
  // with other parts (model/dim_parts.h) before than after: a ppermute of
  // unknown bytes, or nothing if the numbers of devices differ.
  MoveCost OfOtherParts(const Spec& before, const Spec& after) const;

 private:
  MoveCost Compute(const TensorType& type, const Spec& before,
                   const Spec& after) const;
  // `joint` is true to classify over the joint mesh of two different meshes.
  std::optional<SpecMove> Classify(const Spec& before, const Spec& after,
                                   bool joint) const;

  const Mesh& before_;
  const Mesh& after_;
  bool same_mesh_;
  std::optional<JointMesh> joint_;
  std::unordered_map<std::string, MoveCost> known_;
};

// Returns whether both meshes have the same axes in the same order with the
// same sizes.
bool SameAxes(const Mesh& a, const Mesh& b);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_MOVES_H_
