// Roles of parameters whose layers are scanned: one tensor holds a parameter of
// all layers, and one of its dimensions counts them.
#ifndef SHARDC_STEP_SCANNED_ROLES_H_
#define SHARDC_STEP_SCANNED_ROLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "source/finding.h"

namespace shardc::step {

struct RoleTree;

// Finds the role of tensors that hold a parameter of all layers: their name is
// that of the role without the layer's number, and they have one dimension
// more. Returns false after findings about patterns.
bool MatchScanned(RoleTree& tree, Findings& findings);

// Returns the number of layers of a stack's scanned tensors: the size that they
// share at the first dimension where they share one.
std::optional<int64_t> ScannedLayers(const RoleTree& tree, size_t stack);

// Finds in each scanned tensor of a stack the dimension that counts the layers:
// that without which the shape is a layer's.
void FindStackDims(RoleTree& tree, size_t stack, int64_t layers);

// Adds scanned tensors to the rows of every layer.
void GatherScanned(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_SCANNED_ROLES_H_
