// Finds the roles of parameters of scanned layers. One tensor holds the
// parameters of all layers for a role, and one of its dimensions counts the
// layers.
#ifndef SHARDC_STEP_SCANNED_ROLES_H_
#define SHARDC_STEP_SCANNED_ROLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "source/finding.h"

namespace shardc::step {

struct RoleTree;

// Finds the roles of tensors that hold the parameters of all layers. The name
// of such a tensor is a name of the role without the layer's number, and the
// tensor has one more dimension. Reports errors and returns false if a pattern
// is invalid.
bool MatchScanned(RoleTree& tree, Findings& findings);

// Finds further tensors that hold the parameters of scanned layers: those that
// a role's pattern matches without a layer's number, such as `tower/q` of
// `(block_$i|tower)/q`, if they have one more dimension than the role. Sets
// `tree.leading` to the number of layers with numbers before them: 1 if the
// tree also has `block_0/q`. Removes the role of a tensor that should have a
// layer's number and has none.
void FindTowers(RoleTree& tree);

// Returns the number of layers of a stack's scanned tensors: the size of the
// first dimension that has the same size in all of these tensors. Returns
// nullopt if there is no such dimension.
std::optional<int64_t> ScannedLayers(const RoleTree& tree, size_t stack);

// Sets the dimension that counts the layers in each scanned tensor of a stack.
// It is the first dimension of size `layers` whose removal leaves the shape of
// one layer's parameter. If there is no such dimension, it is the first
// dimension of size `layers`, or else dimension 0.
void FindStackDims(RoleTree& tree, size_t stack, int64_t layers);

// Adds each scanned tensor to the rows of its role in every layer of its stack
// except the leading ones. If the role already has a tensor in the first of
// these layers, the scanned tensor is not added, and a problem (kTwo) is added
// instead. The tensors of single experts are always added.
void GatherScanned(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_SCANNED_ROLES_H_
