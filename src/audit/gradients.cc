// A training step shows in two ways of which parameter a sum is the gradient.
//
// 1. It updates the parameter: an output of the program is computed by elements
//    from the sum and from arguments. Several arguments may take part, such as
//    `w` and its moment `m`. The parameter is the only one that the model
//    computes with, so here `w`, which is multiplied:
//
//      %y = dot(%x, %w)              ROOT %t = tuple(%new.w, %new.m)
//      %new.m = add(%m, %g)          %new.w  = subtract(%w, %new.m)
//
// 2. A program that only returns gradients has no update. But the gradient of a
//    matrix is the product of two values that are each multiplied by the matrix
//    too: of the input in the forward pass, and of the gradient of the result
//    in the backward pass.
//
//      %y  = dot(%x, %w)             forward
//      %dx = dot(%dy, %w)            backward
//      %g  = all-reduce(dot(%x, %dy))
//
//    `q`, `k` and `v` have the same input, and two weights whose results are
//    added have the same %dy. Only one weight has both. If the forward matmul
//    is not in reach, because %x is stored or computed again, %dy is enough if
//    it is multiplied by only one parameter of the right size.
//
// If the evidence is missing, or points to several parameters, the parameter is
// not known.
#include "audit/gradients.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "audit/runs.h"
#include "comm/collective.h"
#include "hlo/groups.h"
#include "importers/rules/exact.h"
#include "importers/rules/hlo.h"
#include "source/size.h"

namespace shardc::audit {
namespace {

bool IsMatmul(std::string_view opcode) {
  return opcode == "dot" || opcode == "convolution";
}

bool IsSum(std::string_view opcode) {
  return opcode == "all-reduce" || opcode == "all-reduce-start" ||
         opcode == "reduce-scatter";
}

// Returns whether an instruction of this opcode computes with a parameter other
// than by elements.
bool IsUse(std::string_view opcode) {
  constexpr std::string_view kUses[] = {"broadcast", "gather", "ragged-dot",
                                        "custom-call", "scatter"};
  return IsMatmul(opcode) ||
         std::ranges::find(kUses, opcode) != std::end(kUses);
}

std::vector<int64_t> SortedDims(std::string_view type) {
  auto arrays = hlo::ArraysOf(type, hlo::kOneOrMore);
  if (arrays.size() != 1) return {};
  auto dims = std::move(arrays[0].dims);
  // A slice of one layer may keep its layer dimension, of size 1.
  std::erase(dims, 1);
  std::ranges::sort(dims);
  return dims;
}

bool IsFloatArray(const hlo::Array& array) {
  return !array.dims.empty() &&
         (array.element.starts_with('f') || array.element.starts_with("bf"));
}

}  // namespace

Gradients::Gradients(const Graph& graph, const Entry& entry)
    : graph_(graph), entry_(entry), tracer_(graph) {
  ReadModel();
  ReadUpdates();
}

Gradients::Origin Gradients::OriginOf(Node operand) {
  Value source = tracer_.SourceOf({operand, {}});
  return {source.node, std::move(source.path)};
}

void Gradients::ReadModel() {
  // Whether IsUse accepts the opcode; indexed by the opcode's number.
  std::vector<bool> uses;
  const hlo::Instructions& instructions = graph_.program().instructions;
  for (const std::string_view opcode : instructions.opcodes()) {
    uses.push_back(IsUse(opcode));
  }
  for (const Block block : graph_.order()) {
    const hlo::Computation& computation = graph_.BlockAt(block);
    for (Node node = computation.begin; node < computation.end; ++node) {
      if (!uses[instructions.OpcodeNumber(node)]) continue;
      if (IsMatmul(graph_.At(node).opcode)) {
        AddMatmul(node);
        continue;
      }
      for (const Node operand : graph_.Operands(node)) {
        // Scalars are rates and counters.
        if (operand == kNoNode || SortedDims(graph_.At(operand).type).empty()) {
          continue;
        }
        const Node source = OriginOf(operand).first;
        if (entry_.Of(source).what == What::kParameter) used_.insert(source);
      }
    }
  }
}

void Gradients::AddMatmul(Node matmul) {
  const auto operands = graph_.Operands(matmul);
  if (operands.size() != 2 || operands[0] == kNoNode ||
      operands[1] == kNoNode) {
    return;
  }
  const auto name = hlo::OpNameOf(graph_.At(matmul)).value_or("");
  const bool backward = PhaseOf(name) == Phase::kBackward;
  const Origin origins[] = {OriginOf(operands[0]), OriginOf(operands[1])};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node parameter = origins[i].first;
    if (entry_.Of(parameter).what != What::kParameter) continue;
    used_.insert(parameter);
    matmuls_.emplace(
        origins[1 - i],
        Matmul{parameter, SortedDims(graph_.At(operands[i]).type), backward});
  }
}

void Gradients::ReadUpdates() {
  const hlo::Computation& entry = graph_.BlockAt(graph_.program().entry);
  if (entry.empty()) return;
  const std::string_view type = graph_.At(entry.root).type;
  const bool is_tuple = type.starts_with('(');
  const auto outputs = hlo::ArraysOf(type);
  Elementwise elementwise(graph_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!IsFloatArray(outputs[i])) continue;
    Value output{entry.root, {}};
    if (is_tuple) output.path.push_back(static_cast<int64_t>(i));
    const Origins origins = elementwise.OriginsOf(std::move(output));
    for (const SentOperand& sum : origins.collectives) {
      updates_[sum].insert(origins.arguments.begin(), origins.arguments.end());
    }
  }
}

std::optional<Node> Gradients::UsedOf(const std::set<Node>& arguments) const {
  std::optional<Node> out;
  for (const Node argument : arguments) {
    if (!used_.contains(argument)) continue;
    if (out) return std::nullopt;
    out = argument;
  }
  return out;
}

std::optional<Node> Gradients::Multiplied(const SentOperand& sum) {
  // A sum over several axes may be one sum after another.
  Node matmul = sum.first;
  int64_t index = sum.second;
  do {
    const auto operand = graph_.Operand(matmul, AsIndex(index));
    if (!operand) return std::nullopt;
    Origin origin = OriginOf(*operand);
    matmul = origin.first;
    index = origin.second.empty() ? 0 : std::max<int64_t>(0, origin.second[0]);
  } while (IsSum(graph_.At(matmul).opcode));
  const auto factors = graph_.Operands(matmul);
  if (!IsMatmul(graph_.At(matmul).opcode) || factors.size() != 2 ||
      factors[0] == kNoNode || factors[1] == kNoNode) {
    return std::nullopt;
  }
  const auto dims = SortedDims(graph_.At(matmul).type);
  // The parameters by which each factor is multiplied, and those by which it is
  // multiplied in the backward pass.
  std::set<Node> by[2], backward;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Origin factor = OriginOf(factors[i]);
    // A matmul with a parameter is no gradient of a parameter.
    if (entry_.Of(factor.first).what == What::kParameter) return std::nullopt;
    const auto [first, last] = matmuls_.equal_range(factor);
    for (auto at = first; at != last; ++at) {
      by[i].insert(at->second.parameter);
      const bool same_size = at->second.dims == dims;
      if (at->second.backward && same_size) {
        backward.insert(at->second.parameter);
      }
    }
  }
  std::vector<Node> both;
  std::ranges::set_intersection(by[0], by[1], std::back_inserter(both));
  const bool one_side = by[0].empty() || by[1].empty();
  if (one_side) both.assign(backward.begin(), backward.end());
  return both.size() == 1 ? std::optional(both[0]) : std::nullopt;
}

std::optional<Node> Gradients::ParameterOf(const SentOperand& sum) {
  const auto found = updates_.find(sum);
  const auto updated =
      found == updates_.end() ? std::nullopt : UsedOf(found->second);
  return updated ? updated : Multiplied(sum);
}

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
    std::set<std::string>& axes = axes_of_[nodes[i]];
    for (const AxisGroup& group : *specs[i]) {
      axes.insert(group.begin(), group.end());
    }
    used_axes_.insert(axes.begin(), axes.end());
    if (entry_.Of(nodes[i]).what != What::kInput) continue;
    has_input_ = true;
    AddBatch(nodes[i], *specs[i]);
    data_axes_.insert(axes.begin(), axes.end());
  }
  for (const Traffic& one : report_.traffic) {
    const auto arrays = hlo::ArraysOf(one.moved.shape);
    if (!DefOf(one.kind).reduces || arrays.empty()) continue;
    const bool of_matrix =
        one.moved.what == What::kGradient && arrays[0].dims.size() > 1;
    const bool loss = one.phase == Phase::kForward && IsFloatScalar(arrays[0]);
    if (!of_matrix && !loss) continue;
    data_axes_.insert(one.members->axes.begin(), one.members->axes.end());
  }
}

std::set<std::string> Shardings::AxesOf(Node argument) const {
  const auto found = axes_of_.find(argument);
  return found == axes_of_.end() ? std::set<std::string>() : found->second;
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

namespace {

// An axis of tensor parallelism shards a parameter where it is multiplied, and
// through the matmul the activations that follow. For example, tp shards the
// columns of `up` and the rows of `down`, and one sum over tp is needed:
//
//   %h   = dot(%x, %up)            h is sharded over tp because of `up`
//   %y   = dot(%h, %down)
//   %sum = all-reduce(%y)          over tp
//
// Two patterns show that a spec and a sharding constraint disagree:
//
//   1. The activation is gathered again, although a matmul shards it: because
//      of a constraint that leaves out tp, or because the spec of `down` shards
//      its columns. ShardersOf(%h) returns `up`.
//   2. An activation is sliced for a parameter whose rows are sharded, and the
//      matmul is summed and sliced again. If `up` has the spec of `down`, the
//      program contains
//
//        %part = dynamic-slice(%x, ...)
//        %h    = all-reduce(dot(%part, %up))      each use slices %h

// Limits on the instructions between a parameter and its matmul, and on the
// matmuls between a parameter and a gathered value: in attention, the matmul
// with a weight, the scores and the weighted values.
constexpr int kMostMoves = 256;
constexpr int kMostMatmuls = 4;

bool HaveCommon(const std::set<std::string>& axes, const Members& over) {
  return std::ranges::any_of(
      over.axes, [&](const std::string& axis) { return axes.contains(axis); });
}

bool HasBatch(const hlo::Instruction& matmul) {
  return hlo::AttributeOf(matmul.attributes, "lhs_batch_dims").has_value();
}

}  // namespace

Matmuls::Matmuls(const Graph& graph, Tracer& tracer, const Entry& entry,
                 const Report& report, const Shardings& shardings)
    : graph_(graph),
      tracer_(tracer),
      entry_(entry),
      shardings_(shardings),
      elementwise_(graph) {
  for (const Traffic& one : report.traffic) {
    members_.emplace(one.node, one.members.get());
  }
}

// Follows an operand of a matmul back to a parameter of the entry. Axes over
// which it is gathered on the way do not shard it in the matmul.
std::optional<Matmuls::Multiplied> Matmuls::ParameterAt(Node matmul,
                                                        size_t operand) {
  const auto node = graph_.Operand(matmul, operand);
  if (!node) return std::nullopt;
  std::set<std::string> gathered;
  Value value{*node, {}};
  for (int i = 0; i < kMostMoves; ++i) {
    const auto sent = members_.find(value.node);
    if (sent != members_.end()) {
      gathered.insert(sent->second->axes.begin(), sent->second->axes.end());
    }
    auto before = tracer_.Back(value);
    if (!before) break;
    value = std::move(*before);
  }
  if (entry_.Of(value.node).what != What::kParameter) return std::nullopt;
  Multiplied out{value.node, shardings_.AxesOf(value.node)};
  for (const std::string& axis : gathered) out.axes.erase(axis);
  return out;
}

void Matmuls::ReadMatmuls() {
  if (factors_) return;
  factors_.emplace();
  for (const Block block : graph_.order()) {
    const hlo::Computation& computation = graph_.BlockAt(block);
    for (Node node = computation.begin; node < computation.end; ++node) {
      if (graph_.At(node).opcode != "dot") continue;
      for (const size_t i : {size_t{0}, size_t{1}}) {
        const auto parameter = ParameterAt(node, i);
        const auto factor = graph_.Operand(node, 1 - i);
        if (!parameter || !factor) continue;
        const std::string name = entry_.Of(parameter->parameter).name;
        axes_[name].insert(parameter->axes.begin(), parameter->axes.end());
        std::optional<Value> value = Value{*factor, {}};
        for (int moves = 0; value && moves < kMostMoves; ++moves) {
          (*factors_)[value->node].insert(name);
          value = tracer_.Back(*value);
        }
      }
    }
  }
}

bool Matmuls::Shards(const std::string& axis) {
  ReadMatmuls();
  return std::ranges::any_of(
      axes_, [&](const auto& one) { return one.second.contains(axis); });
}

bool Matmuls::Keeps(const std::string& name, const Members& over) {
  ReadMatmuls();
  const auto found = axes_.find(name);
  return found != axes_.end() && HaveCommon(found->second, over);
}

std::string Matmuls::FactorOf(Node value) {
  ReadMatmuls();
  const auto found = factors_->find(value);
  return found == factors_->end() || found->second.size() != 1
             ? std::string()
             : *found->second.begin();
}

void Matmuls::Search(Node value, const Members& over, int depth,
                     std::set<std::string>& out) {
  if (depth > kMostMatmuls || !searched_.insert(value).second) return;
  const Origins origins = elementwise_.OriginsOf({value, {}}, false);
  for (const Node matmul : origins.matmuls) {
    bool has_parameter = false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto one = ParameterAt(matmul, i);
      if (!one) continue;
      has_parameter = true;
      if (HaveCommon(one->axes, over) && !HasBatch(graph_.At(matmul))) {
        out.insert(entry_.Of(one->parameter).name);
      }
    }
    if (has_parameter) continue;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto operand = graph_.Operand(matmul, i);
      if (operand) Search(*operand, over, depth + 1, out);
    }
  }
}

std::set<std::string> Matmuls::ShardersOf(Node value, const Members& over) {
  std::set<std::string> out;
  searched_.clear();
  if (over.named) Search(value, over, 0, out);
  return out;
}

// Returns whether a slice is a part of a reduce-scatter, which CPUs run as an
// all-reduce of which each device keeps a slice.
bool Matmuls::IsScattered(Node slice, Uses& uses) {
  const auto operand = graph_.Operand(slice, 0);
  if (!operand) return true;
  const Value source = tracer_.SourceOf({*operand, {}});
  return graph_.At(source.node).opcode.starts_with("all-reduce") &&
         uses.AllSlice(source.node);
}

std::optional<std::string> Matmuls::SlicedFor(const Traffic& sum, Uses& uses) {
  const auto operand = graph_.Operand(sum.node, AsIndex(sum.operand));
  if (!operand || !sum.members->named) return std::nullopt;
  const Node matmul = tracer_.SourceOf({*operand, {}}).node;
  if (graph_.At(matmul).opcode != "dot" || HasBatch(graph_.At(matmul))) {
    return std::nullopt;
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto one = ParameterAt(matmul, i);
    const auto factor = graph_.Operand(matmul, 1 - i);
    if (!one || !factor || !HaveCommon(one->axes, *sum.members)) continue;
    for (const Node slice :
         elementwise_.OriginsOf({*factor, {}}, false).slices) {
      const auto whole = graph_.Operand(slice, 0);
      if (!whole) continue;
      const auto before =
          hlo::ArraysOf(graph_.At(*whole).type, hlo::kOneOrMore);
      const auto after = hlo::ArraysOf(graph_.At(slice).type, hlo::kOneOrMore);
      const bool parts = before.size() == 1 && after.size() == 1 &&
                         before[0].Elements().value() ==
                             (after[0].Elements() * sum.members->size).value();
      if (parts && before[0].dims.size() > 1 && !IsScattered(slice, uses)) {
        return entry_.Of(one->parameter).name;
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardc::audit
