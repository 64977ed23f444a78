// Finds roles of attention matrices that their names do not show, by the names
// and sizes of the other matrices of the same module.
#ifndef SHARDC_SUGGEST_SIBLINGS_H_
#define SHARDC_SUGGEST_SIBLINGS_H_

#include "model/project.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Sets the roles of attention projections whose names do not show them, and
// InferredDims::siblings. Only groups whose role by name is unknown are
// considered; for outputs, also those with a word for an output, such as `wo`,
// that names a down projection elsewhere. Where two readings of the sizes are
// possible, the role stays unknown. The tree must come from WithoutLayers().
void NameBySiblings(const Tree& tree, const ModelConfig* model,
                    ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SIBLINGS_H_
