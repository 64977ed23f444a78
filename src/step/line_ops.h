// Writes the ops of one line of a description's model section.
#ifndef SHARDC_STEP_LINE_OPS_H_
#define SHARDC_STEP_LINE_OPS_H_

#include <cstddef>
#include <vector>

#include "step/build_context.h"
#include "step/lines.h"

namespace shardc::step {

// Appends the ops of a line, which must not be an `add`. All arguments of the
// line must exist, unless the line is attention, which checks its arguments
// itself. Returns the line's results. There may be fewer results than the line
// names, and some may be kNoValue. If the dimensions of operands do not match,
// c.Fail() reports an error.
std::vector<ValueId> WriteLine(BuildContext& c, const Line& line);

// Writes the line attention(..) or attention_near(..) and returns its result.
// If the mode has a cache, keys and values are written to it and read from it.
// Returns kNoValue if an operand is absent.
ValueId WriteAttention(BuildContext& c, const Line& line);
// Writes the line rope(x): rotates x [.., h] by the positions of its tokens.
ValueId WriteRope(BuildContext& c, ValueId x);
// Writes a mixture of experts, the line moe(x, ..) or moe_fused(x, ..).
ValueId WriteExperts(BuildContext& c, const Line& line, ValueId x);

// Returns x times a weight, plus the weight's bias if it has one. `role` is the
// index of the line's argument that names the role of the weight. Reports an
// error if x and the weight have no dimension in common.
ValueId CheckedLinear(BuildContext& c, const Line& line, ValueId x,
                      size_t role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LINE_OPS_H_
