// Reverse-mode differentiation. Forward ops are visited in reverse order. If
// the result of an op has a cotangent g, the rule in the op's definition adds
// the cotangents of its operands. The cotangents are computed by ops that are
// appended to the graph:
//
//   y = einsum(x [b t d], w [f d])   g [b t f]  ->  x: einsum(g, w -> b t d)
//                                                   w: einsum(g, x -> f d)
//
// No gradient passes through the choice of experts, which is 0 or 1. Nor does
// one pass through the maximum in a softmax, because the softmax does not
// depend on it.
#include "step/vjp.h"

#include <string>

#include "source/index.h"
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {

void Differentiate(Graph& graph) {
  if (graph.loss == kNoValue) return;
  const size_t forward_ops = graph.ops.size();
  graph.ops.reserve(forward_ops * 3);
  Backward backward(graph);
  GraphWriter& write = backward.write();
  write.name = "d:loss";
  backward.Give(graph.loss, write.Fn("one", graph.loss));
  for (size_t i = forward_ops; i > 0;) {
    --i;
    if (graph.ops[i].in.empty()) continue;
    if (!backward.HasCotangent(graph.ops[i].out)) continue;
    // The op is copied, because appending to graph.ops may reallocate the
    // vector.
    const Op op = graph.ops[i];
    write.layer = op.layer;
    write.name = "d:" + op.name;
    const ValueId cotangent = backward.Total(op.out, op.constraint);
    const VjpRule rule = DefOf(op.kind).vjp;
    if (rule != nullptr) rule(backward, op, cotangent);
  }
  for (const Parameter& parameter : graph.parameters) {
    write.layer = parameter.layer;
    write.name = "d:" + parameter.role;
    graph.gradients.push_back(
        backward.Total(parameter.value, "grad:" + parameter.role));
  }
}

}  // namespace shardc::step
