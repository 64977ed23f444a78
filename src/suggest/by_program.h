// Suggests from the facts of a traced program in place of names and sizes.
#ifndef SHARDC_SUGGEST_BY_PROGRAM_H_
#define SHARDC_SUGGEST_BY_PROGRAM_H_

#include "program/facts.h"
#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Returns the role of each group, as the program shows it. Roles serve titles
// only: the specs follow from factors.
ModelDims ProgramDims(const Tree& tree, const program::Facts& facts);

// Chooses the factors that the tensor-parallel axis shards, and a spec for each
// group. A dimension that holds several parts is never sharded over that axis.
Choices ChooseByProgram(const Tree& tree, const program::Facts& facts,
                        const ModelDims& dims, const MeshAxes& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_BY_PROGRAM_H_
