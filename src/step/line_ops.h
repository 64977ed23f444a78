// The ops of one line of a description's model section.
#ifndef SHARDC_STEP_LINE_OPS_H_
#define SHARDC_STEP_LINE_OPS_H_

#include <cstddef>
#include <vector>

#include "step/build_context.h"
#include "step/lines.h"

namespace shardc::step {

// Appends the ops of a line of any kind but `add`. All arguments of the line
// must exist, unless the line is attention, which checks its arguments itself.
// Returns the line's results. There may be fewer than the line names, and some
// may be kNoValue. Reports operands that do not fit by c.Fail.
std::vector<ValueId> WriteLine(BuildContext& c, const Line& line);

// Writes attention(..) or attention_near(..). Keys and values are written to
// and read from the cache if the mode has one. Returns kNoValue if an operand
// is absent.
ValueId WriteAttention(BuildContext& c, const Line& line);
// Writes rope(x): x [.., h] rotated by the positions of its tokens.
ValueId WriteRope(BuildContext& c, ValueId x);
// Writes a mixture of experts: moe(x, ..) or moe_fused(x, ..).
ValueId WriteExperts(BuildContext& c, const Line& line, ValueId x);

// Returns x times the weight of the argument `role`, plus the role's bias if it
// has one. Reports operands that have no dimension in common.
ValueId CheckedLinear(BuildContext& c, const Line& line, ValueId x,
                      size_t role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LINE_OPS_H_
