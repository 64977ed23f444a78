// Finds the mesh axes that shard a program's arguments and its batch. The texts
// of CPU and GPU programs state the shardings of the entry's parameters. The
// texts of TPU programs state none. For these programs, the axes are inferred
// from the collectives:
//
//   1. An all-reduce sums a gradient, or the loss (a scalar of the forward
//      pass). Then the batch is sharded over the axes of this all-reduce.
//   2. The program returns a floating-point scalar, and no collective runs over
//      an axis, such as tp. Then nothing from which the scalar is computed is
//      sharded over tp, because only a collective over tp could have combined
//      the shards.
#include "audit/shardings.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "hlo/shapes.h"
#include "importers/rules/hlo.h"

namespace shardc::audit {
namespace {

bool IsFloatScalar(const hlo::Array& array) {
  return array.dims.empty() &&
         (array.element.starts_with('f') || array.element.starts_with("bf"));
}

}  // namespace

Shardings::Shardings(const Graph& graph, Tracer& tracer, const Entry& entry,
                     const Report& report)
    : graph_(graph), tracer_(tracer), entry_(entry), report_(report) {
  if (!report.mesh) return;
  Read();
  if (!any_) InferBatch();
}

void Shardings::Read() {
  const hlo::Program& program = graph_.program();
  const hlo::Computation& entry = graph_.BlockAt(program.entry);
  std::vector<Node> nodes;
  std::vector<std::string_view> texts;
  for (Node node = entry.begin; node < entry.end; ++node) {
    const hlo::Instruction at = graph_.At(node);
    if (at.opcode != "parameter") continue;
    const auto sharding = hlo::AttributeOf(at.attributes, "sharding");
    if (!sharding) continue;
    nodes.push_back(node);
    texts.push_back(*sharding);
  }
  const auto specs =
      imports::SpecsOfShardings(program.source, *report_.mesh, texts);
  any_ = all_known_ = !specs.empty();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i]) {
      all_known_ = false;
      continue;
    }
    for (const AxisGroup& group : *specs[i]) {
      used_axes_.insert(group.begin(), group.end());
    }
    if (entry_.Of(nodes[i]).what == What::kInput) AddBatch(nodes[i], *specs[i]);
  }
}

// Adds the axes that shard the batch dimension of an input. This is dimension
// 0, unless dimension 0 counts micro-batches; then it is dimension 1. Dimension
// 0 is assumed to count micro-batches if it is unsharded and as large as the
// trip count of a loop.
void Shardings::AddBatch(Node node, const Spec& spec) {
  const auto arrays = hlo::ArraysOf(graph_.At(node).type, hlo::kOneOrMore);
  if (arrays.size() != 1 || arrays[0].dims.empty()) return;
  size_t dim = 0;
  if (AxesAt(spec, 0).empty() && IsTripCount(arrays[0].dims[0])) dim = 1;
  const AxisGroup axes = AxesAt(spec, dim);
  batch_axes_.insert(axes.begin(), axes.end());
}

// Infers the axes of the batch from the sums of gradients and of the loss,
// which run over these axes. A sum to a scalar in the forward pass is the loss.
// The norm of the gradients is a sum to a scalar as well, but it comes after
// the backward pass. In a program without a backward pass, operations have no
// phase, so every sum to a scalar is used.
void Shardings::InferBatch() {
  const bool trains = std::ranges::any_of(
      report_.traffic,
      [](const Traffic& one) { return one.phase == Phase::kBackward; });
  const Phase phase = trains ? Phase::kForward : Phase::kNone;
  for (const Traffic& one : report_.traffic) {
    if (one.kind != Collective::kAllReduce) continue;
    const auto arrays = hlo::ArraysOf(one.moved.shape);
    const bool loss =
        one.phase == phase && !arrays.empty() && IsFloatScalar(arrays[0]);
    if (!loss && one.moved.what != What::kGradient) continue;
    batch_axes_.insert(one.members->axes.begin(), one.members->axes.end());
  }
}

bool Shardings::IsOverBatch(const Traffic& one) const {
  return std::ranges::any_of(one.members->axes, [&](const std::string& axis) {
    return batch_axes_.contains(axis);
  });
}

bool Shardings::MaySumOverBatch(const Traffic& sum) const {
  return batch_axes_.empty() || !sum.members->named || IsOverBatch(sum);
}

bool Shardings::GathersBatch(const Traffic& gather) const {
  const bool over = IsOverBatch(gather);
  if (!over || any_) return over;
  // The text has no shardings, so the axes of the batch were inferred from
  // sums. Such sums may also run over axes that shard the sequence. Only a
  // gather of dimension 0 is then certain to gather the batch.
  const auto dims =
      hlo::AttributeOf(graph_.At(gather.node).attributes, "dimensions");
  return dims == "{0}";
}

// Returns whether one of the program's outputs is a floating-point scalar.
bool Shardings::ReturnsLoss() const {
  const hlo::Computation& entry = graph_.BlockAt(graph_.program().entry);
  return !entry.empty() &&
         std::ranges::any_of(hlo::ArraysOf(graph_.At(entry.root).type),
                             IsFloatScalar);
}

std::vector<const MeshAxis*> Shardings::Unused() const {
  std::vector<const MeshAxis*> out;
  if (!report_.mesh || !(any_ ? all_known_ : ReturnsLoss())) return out;
  std::set<std::string> used = used_axes_;
  for (const Traffic& one : report_.traffic) {
    if (!one.members->named) return out;
    used.insert(one.members->axes.begin(), one.members->axes.end());
  }
  for (const MeshAxis& axis : report_.mesh->axes) {
    if (axis.size > 1 && !used.contains(axis.name)) out.push_back(&axis);
  }
  return out;
}

bool Shardings::IsTripCount(int64_t count) {
  if (trips_.empty()) {
    trips_.insert(0);
    for (const Call& call : graph_.calls()) {
      if (call.kind != CallKind::kBody) continue;
      trips_.insert(TripsOf(graph_, tracer_, call.from).value_or(0));
    }
  }
  return count > 1 && trips_.contains(count);
}

}  // namespace shardc::audit
