// Appends the optimizer to a graph. The gradients are clipped by their global
// norm, the root of the sum of squares of all gradients. The squares of a
// gradient are summed by an einsum of the gradient with itself. The einsum's
// result is partial only over the axes that shard the gradient, so the elements
// of replicas are counted once. For a parameter p with gradient g and moments m
// and v:
//
//   norm = sqrt(the sum of einsum(g, g -> ) over all gradients g)
//   clip = min(1, Adam::clip / norm)
//   p', m', v' = AdamW(p, g, m, v, clip)
#include "step/optimizer.h"

#include <utility>
#include <vector>

#include "step/graph_writer.h"

namespace shardc::step {
namespace {

ValueId Update(GraphWriter& write, const std::vector<ValueId>& in,
               AdamWResult result, const Parameter& parameter) {
  const Adam& adam = write.graph().adam;
  const AdamWAttributes update{result, parameter.decays ? adam.decay : 0};
  const ValueId out =
      write.Append(OpKind::kAdamW, in, update, write.LabelsOf(in[0]));
  write.Producer(out).constraint = "new:" + parameter.role;
  return out;
}

// Appends the gradients' norm (the square root of `sum`), the factor that clips
// gradients by this norm, and the updates.
void AppendUpdates(GraphWriter& write, ValueId sum) {
  Graph& graph = write.graph();
  graph.gradient_norm = write.Fn("sqrt", sum);
  const ValueId clip = write.Fn("clip", graph.gradient_norm, graph.adam.clip);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const ValueId g = graph.gradients[i];
    graph.moments.emplace_back();
    graph.updated_moments.emplace_back();
    graph.updated.push_back(kNoValue);
    if (g == kNoValue) continue;
    write.layer = parameter.layer;
    write.name = "adamw " + parameter.role;
    const Labels labels = write.LabelsOf(parameter.value);
    Moments& moments = graph.moments.back();
    moments = {write.Input(labels), write.Input(labels)};
    const std::vector<ValueId> in = {parameter.value, g, moments.first,
                                     moments.second, clip};
    graph.updated.back() =
        Update(write, in, AdamWResult::kParameter, parameter);
    graph.updated_moments.back() = {
        Update(write, in, AdamWResult::kFirstMoment, parameter),
        Update(write, in, AdamWResult::kSecondMoment, parameter)};
  }
}

}  // namespace

void AppendOptimizer(Graph& graph) {
  GraphWriter write(graph);
  write.phase = Phase::kOptimizer;
  write.name = "norm";
  std::vector<ValueId> squares;
  for (const ValueId g : graph.gradients) {
    if (g != kNoValue) squares.push_back(write.Einsum(g, g, {}));
  }
  if (squares.empty()) return;
  AppendUpdates(write, write.Add(std::move(squares)));
}

void AppendOptimizer(Graph& graph, std::vector<NormPart>& parts) {
  GraphWriter write(graph);
  write.phase = Phase::kOptimizer;
  write.name = "norm";
  std::vector<ValueId> sums;
  for (NormPart& part : parts) {
    std::vector<ValueId> squares;
    for (const size_t parameter : part.parameters) {
      const ValueId own = graph.gradients[parameter];
      if (own != kNoValue) squares.push_back(write.Einsum(own, own, {}));
    }
    if (squares.empty()) continue;
    part.sum = write.Add(std::move(squares));
    sums.push_back(part.sum);
  }
  if (!sums.empty()) AppendUpdates(write, write.Add(std::move(sums)));
}

}  // namespace shardc::step
