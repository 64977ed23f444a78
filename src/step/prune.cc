// Removes the ops on which none of the loss, the logits and the caches depends.
// An op comes after the ops that compute its operands, so one pass over the ops
// in reverse order finds all values that are needed. For example, in the
// decoding step of a model with an encoder, the cache already holds k, the keys
// of the encoder's tokens:
//
//   e = encoder(..), k = linear(e, w)    removed
//   logits = .., which reads k's cache   kept
#include "step/prune.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "source/index.h"

namespace shardc::step {
namespace {

// Returns for each value whether it is needed: true for parameters, and for
// values on which the loss, the logits or the caches depend.
std::vector<bool> Needed(const Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  const auto need = [&](ValueId value) {
    if (value != kNoValue) needed[AsIndex(value)] = true;
  };
  need(graph.loss);
  need(graph.logits);
  for (const Cache& cache : graph.caches) {
    need(cache.before);
    need(cache.after);
  }
  for (const Parameter& parameter : graph.parameters) need(parameter.value);
  for (size_t i = graph.ops.size(); i > 0;) {
    --i;
    const Op& op = graph.ops[i];
    if (!needed[AsIndex(op.out)]) continue;
    for (const ValueId value : op.in) need(value);
  }
  return needed;
}

}  // namespace

void Prune(Graph& graph) {
  const std::vector<bool> needed = Needed(graph);
  std::vector<ValueId> now(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    now[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&](ValueId& value) {
    if (value != kNoValue) value = now[AsIndex(value)];
  };
  std::erase_if(graph.ops,
                [&](const Op& op) { return !needed[AsIndex(op.out)]; });
  for (Op& op : graph.ops) {
    renumber(op.out);
    for (ValueId& value : op.in) renumber(value);
  }
  std::erase_if(graph.data,
                [&](const Data& data) { return !needed[AsIndex(data.value)]; });
  for (Data& data : graph.data) renumber(data.value);
  for (Parameter& parameter : graph.parameters) renumber(parameter.value);
  for (Cache& cache : graph.caches) {
    renumber(cache.before);
    renumber(cache.after);
  }
  renumber(graph.loss);
  renumber(graph.logits);
}

}  // namespace shardc::step
