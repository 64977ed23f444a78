// A resolver for commands that work with or without a mesh.
#ifndef SHARDC_CLI_OPEN_MESH_H_
#define SHARDC_CLI_OPEN_MESH_H_

#include <optional>

#include "cli/inputs.h"
#include "resolve/resolve.h"

namespace shardc::cli {

// Rules and mesh of the flags or the target, either of which may be absent.
// Without a mesh every axis that the axis rules name counts as present, so
// that nothing is left out of a spec.
std::optional<Resolver> LoadResolver(const InputFlags& flags,
                                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OPEN_MESH_H_
