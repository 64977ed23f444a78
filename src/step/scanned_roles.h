// Roles of parameters of scanned layers: one tensor has the parameters of all
// layers for a role, and one of its dimensions counts the layers.
#ifndef SHARDC_STEP_SCANNED_ROLES_H_
#define SHARDC_STEP_SCANNED_ROLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "source/finding.h"

namespace shardc::step {

struct RoleTree;

// Finds the roles of tensors that have the parameters of all layers. The name
// of such a tensor is that of the role without the layer's number, and the
// tensor has one more dimension. Returns false after findings about patterns.
bool MatchScanned(RoleTree& tree, Findings& findings);

// Returns the number of layers of a stack's scanned tensors: the size of the
// first dimension that has the same size in all of these tensors. Returns
// nullopt if there is no such dimension.
std::optional<int64_t> ScannedLayers(const RoleTree& tree, size_t stack);

// Finds in each scanned tensor of a stack the dimension that counts the layers:
// the first dimension of size `layers` whose removal gives the shape of a
// layer. If there is none, takes the first dimension of that size, or else
// dimension 0.
void FindStackDims(RoleTree& tree, size_t stack, int64_t layers);

// Adds each scanned tensor to the rows of every layer of its stack. If a tensor
// that is not of a single expert has a role that already has a tensor in the
// first of these layers, adds a problem (kTwo) instead.
void GatherScanned(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_SCANNED_ROLES_H_
