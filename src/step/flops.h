// Counts the floating-point operations of a step. OpDef::flops defines the
// count of each op.
#ifndef SHARDC_STEP_FLOPS_H_
#define SHARDC_STEP_FLOPS_H_

#include "model/step_graph.h"
#include "step/program.h"

namespace shardc::step {

// Returns the floating-point operations of one device for an instruction. An
// exponential, a root or a quotient is one operation. Collectives, and ops that
// only move elements, have no operations. A slot of an expert's queue holds at
// most one token, so a product over tokens and slots is counted as if it had
// only the slots.
double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes);

// Returns whether an op is a matrix product: an einsum that sums a dimension.
bool IsMatrixProduct(const Graph& graph, const Op& op);

}  // namespace shardc::step

#endif  // SHARDC_STEP_FLOPS_H_
