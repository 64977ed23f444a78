// Chooses a spec for each parameter group of a model on a mesh.
#ifndef SHARDC_SUGGEST_CHOOSE_H_
#define SHARDC_SUGGEST_CHOOSE_H_

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Returns the choices for all groups, in the order of `tree.groups`. Never
// fails: a dimension that no axis divides stays unsharded.
Choices Choose(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
               const Preferences& preferences);

// Sets Choices::axes, the `axes:` section of the rules file, and the members
// that describe it.
void SetAxisRules(const ModelDims& dims, const MeshAxes& mesh, Choices& out);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_CHOOSE_H_
