// Graphs that tests write by hand, to check how they are lowered for a mesh.
#ifndef SHARDC_TESTS_STEP_GRAPH_MAKER_H_
#define SHARDC_TESTS_STEP_GRAPH_MAKER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/step_graph.h"
#include "source/size.h"

namespace shardc::step {

class GraphMaker {
 public:
  // Adds a label and its size. The size of a label with factors is the product
  // of the factors' sizes.
  LabelId Label(std::string name, int64_t size, std::string semantic = {},
                std::vector<LabelId> factors = {}) {
    graph.labels.push_back({.name = std::move(name),
                            .factors = std::move(factors),
                            .semantic = std::move(semantic)});
    sizes.push_back(size);
    return static_cast<LabelId>(graph.labels.size() - 1);
  }
  ValueId Value(std::vector<LabelId> labels, bool integral = false) {
    graph.values.push_back({.labels = std::move(labels), .integral = integral});
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId Add(Op op, std::vector<LabelId> labels) {
    op.out = Value(std::move(labels));
    op.phase = phase;
    graph.ops.push_back(op);
    return op.out;
  }
  ValueId Data(std::vector<LabelId> labels, std::string constraint,
               bool integral = true) {
    Op op{.kind = OpKind::kInput, .constraint = std::move(constraint)};
    const ValueId out = Add(std::move(op), std::move(labels));
    graph.values[AsIndex(out)].integral = integral;
    return out;
  }
  ValueId Parameter(std::string role, std::vector<LabelId> labels) {
    const ValueId out = Data(std::move(labels), "", false);
    graph.parameters.push_back({.role = std::move(role), .value = out});
    return out;
  }
  ValueId Einsum(ValueId a, ValueId b, std::vector<LabelId> labels,
                 std::string constraint = {}) {
    return Add(
        {.kind = OpKind::kEinsum, .in = {a, b}, .constraint = constraint},
        std::move(labels));
  }
  ValueId Fn(std::string fn, std::vector<ValueId> in,
             std::vector<LabelId> labels, std::string constraint = {}) {
    return Add({.kind = OpKind::kFn,
                .in = std::move(in),
                .constraint = constraint,
                .attributes = FnAttributes{.fn = std::move(fn)}},
               std::move(labels));
  }
  ValueId Along(OpKind kind, ValueId in, LabelId label,
                std::vector<LabelId> labels) {
    return Add({.kind = kind, .in = {in}, .attributes = LabelAttributes{label}},
               std::move(labels));
  }
  ValueId Sum(std::vector<ValueId> in, std::vector<LabelId> labels,
              std::string constraint = {}) {
    return Add(
        {.kind = OpKind::kAdd, .in = std::move(in), .constraint = constraint},
        std::move(labels));
  }

  Graph graph;
  Sizes sizes;
  Phase phase = Phase::kForward;
};

}  // namespace shardc::step

#endif  // SHARDC_TESTS_STEP_GRAPH_MAKER_H_
