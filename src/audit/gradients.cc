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
//    added have the same %dy. Only one weight has both. If the forward product
//    is not in reach, because %x is stored or computed again, %dy is enough if
//    it is multiplied by only one parameter of the right size.
//
// If the evidence is missing, or points to several parameters, the parameter is
// not known.
#include "audit/gradients.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "audit/origin.h"
#include "hlo/shapes.h"
#include "source/index.h"

namespace shardc::audit {
namespace {

bool IsProduct(std::string_view opcode) {
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
  return IsProduct(opcode) ||
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
      if (IsProduct(graph_.At(node).opcode)) {
        AddProduct(node);
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

void Gradients::AddProduct(Node product) {
  const auto operands = graph_.Operands(product);
  if (operands.size() != 2 || operands[0] == kNoNode ||
      operands[1] == kNoNode) {
    return;
  }
  const auto name = hlo::OpNameOf(graph_.At(product)).value_or("");
  const bool backward = PhaseOf(name) == Phase::kBackward;
  const Origin origins[] = {OriginOf(operands[0]), OriginOf(operands[1])};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node parameter = origins[i].first;
    if (entry_.Of(parameter).what != What::kParameter) continue;
    used_.insert(parameter);
    products_.emplace(
        origins[1 - i],
        Product{parameter, SortedDims(graph_.At(operands[i]).type), backward});
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
  Node product = sum.first;
  int64_t index = sum.second;
  do {
    const auto operand = graph_.Operand(product, AsIndex(index));
    if (!operand) return std::nullopt;
    Origin origin = OriginOf(*operand);
    product = origin.first;
    index = origin.second.empty() ? 0 : std::max<int64_t>(0, origin.second[0]);
  } while (IsSum(graph_.At(product).opcode));
  const auto factors = graph_.Operands(product);
  if (!IsProduct(graph_.At(product).opcode) || factors.size() != 2 ||
      factors[0] == kNoNode || factors[1] == kNoNode) {
    return std::nullopt;
  }
  const auto dims = SortedDims(graph_.At(product).type);
  // The parameters by which each factor is multiplied, and those by which it is
  // multiplied in the backward pass.
  std::set<Node> by[2], backward;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Origin factor = OriginOf(factors[i]);
    // A product with a parameter is no gradient of a parameter.
    if (entry_.Of(factor.first).what == What::kParameter) return std::nullopt;
    const auto [first, last] = products_.equal_range(factor);
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

}  // namespace shardc::audit
