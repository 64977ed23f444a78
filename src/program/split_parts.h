// Gives the parts of a dimension a dimension of their own.
#ifndef SHARDC_PROGRAM_SPLIT_PARTS_H_
#define SHARDC_PROGRAM_SPLIT_PARTS_H_

#include <vector>

#include "model/legal_sizes.h"
#include "program/program.h"

namespace shardc::program {

// Returns the same program with two dimensions in place of each dimension that
// has parts, for the parameters and for all values that have the same factors:
// a projection [64, 3 * 128] in 3 parts becomes [64, 3, 128], and so does its
// result. An axis that shards the last dimension then shards each part, which
// no spec of the joined dimension can say. `parts` has the parts of each
// parameter, in the order of the program's inputs, and must divide its shape.
Program SplitParts(const Program& program, const std::vector<DimParts>& parts);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_SPLIT_PARTS_H_
