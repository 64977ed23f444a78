// Builds the call graph of a program. It is needed to multiply the bytes of
// each computation by the number of its runs. Loops, conditionals, fusions,
// calls and asynchronous starts call computations. Calls form no cycle, so the
// computations can be sorted with callers before callees:
//
//   entry: while(body=%b), fusion(calls=%f);  %b: fusion(calls=%f)
//   ->  entry, b, f
//
// The function that a reduction applies is not part of the graph, because it
// sends nothing.
#include "audit/graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "importers/rules/exact.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

using hlo::AttributeOf;

constexpr uint32_t kNoCall = UINT32_MAX;
constexpr size_t kKeptSlots = 4096;

struct CallAttribute {
  std::string_view opcode, key;
  CallKind kind;
};
// Of an asynchronous operation only the `-start` is listed, because its
// `-update` and `-done` repeat the attribute `calls`.
constexpr CallAttribute kCallAttributes[] = {
    {"fusion", "calls", CallKind::kOnce},
    {"async-start", "calls", CallKind::kOnce},
    {"call", "to_apply", CallKind::kOnce},
    {"while", "body", CallKind::kBody},
    {"while", "condition", CallKind::kCondition},
    {"conditional", "branch_computations", CallKind::kBranch},
    {"conditional", "true_computation", CallKind::kBranch},
    {"conditional", "false_computation", CallKind::kBranch},
};

// Appends the calls that an instruction makes. Returns the name of a called
// computation that the text does not define, or an empty name if the text
// defines all of them.
std::string_view ReadCalls(const hlo::Program& program, Node node,
                           std::vector<Call>& out) {
  const hlo::Instruction instruction = program.instructions[node];
  int64_t branch = 0;
  for (const CallAttribute& one : kCallAttributes) {
    if (one.opcode != instruction.opcode) continue;
    auto names = AttributeOf(instruction.attributes, one.key);
    if (!names) continue;
    if (names->starts_with('{')) *names = names->substr(1, names->size() - 2);
    for (std::string_view item; hlo::NextItem(*names, item);) {
      const std::string_view name = hlo::NameOfOperand(item);
      const auto found = program.by_name.find(name);
      if (found == program.by_name.end()) return name;
      out.push_back({node, found->second, one.kind, branch++});
    }
  }
  return {};
}

}  // namespace

std::optional<Graph> Graph::Of(const hlo::Program& program,
                               Findings& findings) {
  Graph graph(program);
  if (!graph.FindCalls(findings) || !graph.Sort(findings)) return std::nullopt;
  return graph;
}

bool Graph::FindCalls(Findings& findings) {
  // Whether instructions of the opcode call computations; indexed by the
  // opcode's number.
  std::vector<bool> calls;
  for (const std::string_view opcode : program_->instructions.opcodes()) {
    calls.push_back(
        std::ranges::find(kCallAttributes, opcode, &CallAttribute::opcode) !=
        std::end(kCallAttributes));
  }
  for (Node node = 0; node < program_->instructions.size(); ++node) {
    const bool none = !calls[program_->instructions.OpcodeNumber(node)];
    if (!none && !AddCalls(node, findings)) return false;
  }
  return true;
}

bool Graph::AddCalls(Node node, Findings& findings) {
  const size_t before = calls_.size();
  const std::string_view missing = ReadCalls(*program_, node, calls_);
  if (missing.empty()) return true;
  calls_.resize(before);
  findings.Add(code::kForeignSyntax, program_->PlaceOf(missing),
               "the text defines no computation " + ShortQuote(missing),
               "the file is incomplete: write it again");
  return false;
}

// Sorts the computations by Kahn's algorithm over the calls that the entry
// reaches.
bool Graph::Sort(Findings& findings) {
  const size_t blocks = program_->computations.size();
  // `calls_` is sorted by the calling instruction, so the calls from one
  // computation are consecutive.
  const auto from = [&](Block block) {
    const hlo::Computation& computation = BlockAt(block);
    const auto begin =
        std::ranges::lower_bound(calls_, computation.begin, {}, &Call::from);
    const auto end = std::ranges::lower_bound(begin, calls_.end(),
                                              computation.end, {}, &Call::from);
    return std::span<const Call>(begin, end);
  };
  std::vector<int64_t> callers(blocks, 0);
  std::vector<bool> reached(blocks, false);
  std::vector<Block> found = {program_->entry};
  reached[program_->entry] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Call& call : from(found[i])) {
      ++callers[call.to];
      if (!reached[call.to]) found.push_back(call.to);
      reached[call.to] = true;
    }
  }
  std::vector<Call> sorted;
  call_of_.assign(blocks, kNoCall);
  shared_.assign(blocks, false);
  if (callers[program_->entry] == 0) order_.push_back(program_->entry);
  for (size_t i = 0; i < order_.size(); ++i) {
    for (const Call& call : from(order_[i])) {
      if (call_of_[call.to] == kNoCall) {
        call_of_[call.to] = static_cast<uint32_t>(sorted.size());
      } else {
        shared_[call.to] = true;
      }
      sorted.push_back(call);
      if (--callers[call.to] == 0) order_.push_back(call.to);
    }
  }
  if (order_.size() < found.size()) {
    const auto stuck = std::ranges::find_if(
        found, [&](Block block) { return callers[block] > 0; });
    const std::string_view name = BlockAt(*stuck).name;
    findings.Add(
        code::kForeignSyntax, program_->PlaceOf(name),
        "the computation " + ShortQuote(name) + " is part of a cycle of calls",
        "no compiler writes this: write the file again");
    return false;
  }
  calls_ = std::move(sorted);
  return true;
}

Block Graph::BlockOf(Node node) const {
  const auto& all = program_->computations;
  const auto after = std::ranges::upper_bound(
      all, node, {}, [](const hlo::Computation& one) { return one.begin; });
  // A computation without instructions begins at the same index as the next
  // one. The last computation that begins at or before the node therefore
  // contains it.
  return static_cast<Block>(after - all.begin() - 1);
}

Graph::Slot& Graph::SlotOf(std::string_view name) const {
  const size_t hash = std::hash<std::string_view>()(name);
  const auto rest = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & (names_.size() - 1);
  while (names_[at].node != kNoNode &&
         (names_[at].hash != rest ||
          program_->instructions.NameOf(names_[at].node) != name)) {
    at = (at + 1) & (names_.size() - 1);
  }
  names_[at].hash = rest;
  return names_[at];
}

const Graph::Links& Graph::LinksOf(Block block) const {
  const auto [found, added] = links_.try_emplace(block);
  Links& links = found->second;
  if (!added) return links;
  const hlo::Computation& computation = BlockAt(block);
  const size_t count = computation.end - computation.begin;
  // The table keeps at least a third of its slots free, so that every search
  // ends.
  names_.assign(std::bit_ceil(count + count / 2 + 2), Slot());
  for (Node node = computation.begin; node < computation.end; ++node) {
    Slot& slot = SlotOf(program_->instructions.NameOf(node));
    if (slot.node == kNoNode) slot.node = node;
  }
  links.first.reserve(count + 1);
  links.operands.reserve(count + count / 2);
  for (Node node = computation.begin; node < computation.end; ++node) {
    links.first.push_back(static_cast<uint32_t>(links.operands.size()));
    const hlo::Instruction at = At(node);
    if (at.opcode == "constant" || at.opcode == "parameter") continue;
    std::string_view list = at.operands;
    for (std::string_view item; hlo::NextItem(list, item);) {
      links.operands.push_back(SlotOf(hlo::NameOfOperand(item)).node);
    }
  }
  links.first.push_back(static_cast<uint32_t>(links.operands.size()));
  // For a large computation, the hash table needs as much memory as the lists
  // of operands in `links`. It is not needed after they are built, so it is
  // freed.
  if (names_.size() > kKeptSlots) names_ = {};
  return links;
}

std::span<const Node> Graph::Operands(Node node) const {
  const Block block = BlockOf(node);
  const Links& links = LinksOf(block);
  const size_t i = node - BlockAt(block).begin;
  return {links.operands.begin() + links.first[i],
          links.operands.begin() + links.first[i + 1]};
}

std::optional<Node> Graph::Operand(Node node, size_t index) const {
  const auto operands = Operands(node);
  if (index >= operands.size() || operands[index] == kNoNode) {
    return std::nullopt;
  }
  return operands[index];
}

std::vector<Call> Graph::CallsFrom(Node node) const {
  std::vector<Call> out;
  ReadCalls(*program_, node, out);
  return out;
}

const Call* Graph::CallOf(Block block) const {
  return call_of_[block] == kNoCall ? nullptr : &calls_[call_of_[block]];
}

// Traces a collective's operand back to its origin, such as a parameter of the
// entry, so that the report can name the tensor that the collective moves. The
// trace continues only through instructions that move a value. A value is
// described by the instruction that returns it. If the instruction returns a
// tuple, a path of tuple indices is added. Each line shows an instruction and,
// on the right, the value at which the trace continues:
//
//   %g = all-gather(%f)                     f
//   %f = fusion(%e), calls=%slice_of        the root of slice_of, then its
//                                           parameter 0, then e
//   %e = get-tuple-element(%t), index=2     t, path {2}
//   %t = parameter(0) of a loop's body      if the body returns element 2
//                                           unchanged: the loop's operand,
//                                           path {2}
//   %i = tuple(%a, %b, %p)                  p, path {}
//   %l = while(%i), path {1}                if each iteration writes %v into
//                                           element 1: %v in the loop's body
//
// If several instructions call a computation, they may pass different values to
// its parameter. The trace then ends at the parameter.

namespace {

constexpr std::string_view kForwarding[] = {"bitcast",
                                            "convert",
                                            "copy",
                                            "copy-done",
                                            "dynamic-slice",
                                            "reshape",
                                            "slice",
                                            "async-done",
                                            "async-update",
                                            "collective-permute",
                                            "collective-permute-done",
                                            "transpose",
                                            "optimization-barrier",
                                            "opt-barrier",
                                            "reduce-precision"};
constexpr int kDeepestLoop = 64;  // limit on the nesting of loops

// Returns whether an instruction is a gather. A gather of several operands
// returns a tuple, of which element i is the gathered operand i. The tuple of
// an `all-gather-start` also has the operands, before the results. But the
// search reaches it only from its `-done`, which returns the results alone, so
// element i of the value is still the gathered operand i.
bool IsGather(std::string_view opcode) {
  return opcode == "all-gather" || opcode == "all-gather-start";
}

}  // namespace

bool IsForwarding(std::string_view opcode) {
  return std::ranges::find(kForwarding, opcode) != std::end(kForwarding);
}

std::optional<int64_t> ElementIndexOf(const hlo::Instruction& element) {
  const auto index = hlo::AttributeOf(element.attributes, "index");
  return index ? hlo::LeadingNumber(*index) : std::nullopt;
}

std::optional<Value> Tracer::OperandOf(const Value& value, size_t index,
                                       std::vector<int64_t> path) {
  Charge(index);
  const auto operand = graph_.Operand(value.node, index);
  if (!operand) return std::nullopt;
  return Value{*operand, std::move(path)};
}

std::optional<Value> Tracer::FromParameter(const Value& value,
                                           std::optional<Block> stop) {
  const Block block = graph_.BlockOf(value.node);
  if (block == stop || block == graph_.program().entry) return std::nullopt;
  const Call* call = graph_.CallOf(block);
  const auto number =
      hlo::LeadingNumber(graph_.At(value.node).operands).value_or(-1);
  if (call == nullptr || number < 0) return std::nullopt;
  const auto first = FromCall(*call, AsIndex(number), value);
  if (!first || !graph_.IsShared(block)) return first;
  Charge(graph_.calls().size());
  for (const Call& other : graph_.calls()) {
    if (other.to == block && FromCall(other, AsIndex(number), value) != first) {
      return std::nullopt;
    }
  }
  return first;
}

std::optional<Value> Tracer::FromCall(const Call& call, size_t parameter,
                                      const Value& value) {
  const Value caller{call.from, {}};
  switch (call.kind) {
    case CallKind::kOnce:
      return OperandOf(caller, parameter, value.path);
    case CallKind::kBranch:
      return OperandOf(caller, AsIndex(call.branch) + 1, value.path);
    case CallKind::kBody:
    case CallKind::kCondition:
      return ThroughLoop(call.from, value);
  }
  return std::nullopt;
}

std::optional<Value> Tracer::ThroughLoop(Node loop, const Value& value) {
  if (value.path.empty()) return std::nullopt;
  Charge(graph_.At(loop).attributes.size());
  for (const Call& call : graph_.CallsFrom(loop)) {
    if (call.kind == CallKind::kBody && LeavesUnchanged(call.to, value.path)) {
      return OperandOf({loop, {}}, 0, value.path);
    }
  }
  return std::nullopt;
}

std::optional<Value> Tracer::StackedBy(Node loop, const Value& value) {
  if (value.path.empty() || depth_ >= kDeepestLoop) return std::nullopt;
  const auto first = OperandOf({loop, {}}, 0, value.path);
  for (const Call& call : graph_.CallsFrom(loop)) {
    if (call.kind != CallKind::kBody || graph_.BlockAt(call.to).empty()) {
      continue;
    }
    std::optional<Value> written =
        Value{graph_.BlockAt(call.to).root, value.path};
    while (written &&
           graph_.At(written->node).opcode != "dynamic-update-slice") {
      if (steps_left_-- <= 0) return std::nullopt;
      written = Step(*written, call.to);
    }
    if (!written || !first) return std::nullopt;
    ++depth_;
    const auto buffer = OperandOf(*written, 0, {});
    const Value before = buffer ? SourceOf(*buffer, call.to) : Value();
    const std::string_view begin = graph_.At(SourceOf(*first).node).opcode;
    --depth_;
    const bool stacks = before.path == value.path &&
                        graph_.At(before.node).opcode == "parameter" &&
                        graph_.BlockOf(before.node) == call.to;
    const bool constant =
        begin == "broadcast" || begin == "constant" || begin == "custom-call";
    return stacks && constant ? OperandOf(*written, 1, {}) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Value> Tracer::Step(const Value& value,
                                  std::optional<Block> stop) {
  const hlo::Instruction at = graph_.At(value.node);
  std::vector<int64_t> path = value.path;
  if (at.opcode == "parameter") return FromParameter(value, stop);
  if (IsForwarding(at.opcode)) return OperandOf(value, 0, std::move(path));
  if (at.opcode == "get-tuple-element") {
    const auto index = ElementIndexOf(at);
    if (!index || path.size() > kDeepestTuple) return std::nullopt;
    path.push_back(*index);
    return OperandOf(value, 0, std::move(path));
  }
  if (at.opcode == "tuple" || IsGather(at.opcode)) {
    int64_t element = 0;
    if (!path.empty()) {
      element = path.back();
      path.pop_back();
    } else if (at.opcode == "tuple") {
      return std::nullopt;
    }
    return element < 0 ? std::nullopt
                       : OperandOf(value, AsIndex(element), std::move(path));
  }
  if (at.opcode == "all-gather-done") {
    return OperandOf(value, 0, std::move(path));
  }
  if (at.opcode == "copy-start" || at.opcode == "collective-permute-start") {
    return OperandOf(value, 0, {});
  }
  if (at.opcode == "while") {
    const auto before = ThroughLoop(value.node, value);
    return before ? before : StackedBy(value.node, value);
  }
  if (at.opcode == "fusion" || at.opcode == "call" ||
      at.opcode == "async-start") {
    Charge(at.attributes.size());
    const auto calls = graph_.CallsFrom(value.node);
    if (calls.empty() || graph_.BlockAt(calls[0].to).empty()) {
      return std::nullopt;
    }
    return Value{graph_.BlockAt(calls[0].to).root, std::move(path)};
  }
  return std::nullopt;
}

std::optional<Value> Tracer::Back(const Value& value) {
  if (steps_left_-- <= 0) return std::nullopt;
  return Step(value, std::nullopt);
}

Value Tracer::SourceOf(Value value, std::optional<Block> stop) {
  while (steps_left_-- > 0) {
    auto before = Step(value, stop);
    if (!before) break;
    value = std::move(*before);
  }
  return value;
}

Value Tracer::ResultOf(Value value) {
  constexpr std::string_view kSame[] = {
      "parameter", "get-tuple-element", "tuple",      "while",       "fusion",
      "call",      "async-start",       "async-done", "async-update"};
  while (steps_left_-- > 0) {
    const std::string_view opcode = graph_.At(value.node).opcode;
    std::optional<Value> before;
    if (opcode == "all-reduce-done") {
      before = OperandOf(value, 0, value.path);
    } else if (opcode == "while") {
      before = ThroughLoop(value.node, value);
    } else if (std::ranges::find(kSame, opcode) != std::end(kSame)) {
      before = Step(value, std::nullopt);
    }
    if (!before) break;
    value = std::move(*before);
  }
  return value;
}

bool Tracer::LeavesUnchanged(Block body, const std::vector<int64_t>& path) {
  const auto [found, added] = unchanged_.try_emplace({body, path}, false);
  if (!added || depth_ >= kDeepestLoop || graph_.BlockAt(body).empty()) {
    return found->second;
  }
  ++depth_;
  const Value source = SourceOf({graph_.BlockAt(body).root, path}, body);
  --depth_;
  const bool same = source.path == path &&
                    graph_.At(source.node).opcode == "parameter" &&
                    graph_.BlockOf(source.node) == body;
  unchanged_[{body, path}] = same;
  return same;
}

std::optional<int64_t> Tracer::ConstantOf(const Value& value) const {
  const hlo::Instruction at = graph_.At(value.node);
  const bool integer = at.type.starts_with('s') || at.type.starts_with('u');
  if (at.opcode != "constant" || !integer || !value.path.empty()) {
    return std::nullopt;
  }
  return hlo::LeadingNumber(at.operands);
}

// Finds which parameter of the entry a collective moves, so that a report can
// name it. JAX writes the path of an entry parameter in its metadata:
//
//   %p.3 = f32[4,16,64]{2,1,0} parameter(3), sharding={...},
//       metadata={op_name="p['layers']['gate']"}
//   ->  layers/gate, shape 4 x 16 x 64 on a device
//
// The shapes of the parameters are kept to recognise what may be one of them or
// its gradient. For example, dimension 1 of the parameter above is sharded over
// fsdp:2, and a loop runs over the four layers of dimension 0. In the loop, the
// gradient of one layer is reduced over fsdp. Before the reduction it has the
// shape 32 x 64: it has no layer dimension, and its 32 rows are not sharded
// yet.

std::string_view WhatName(What what) {
  constexpr std::string_view kNames[] = {"activation", "parameter", "gradient",
                                         "input"};
  return kNames[static_cast<size_t>(what)];
}

namespace {

// Returns whether an argument with a path is part of the batch. This is assumed
// if the path begins with a usual name of a batch, such as `inputs`, or if the
// argument may hold tokens: an integer array of rank 2 or more. Integer arrays
// of lower rank are counters and random keys of optimizer states.
bool IsOfBatch(std::string_view path, const std::vector<hlo::Array>& arrays) {
  constexpr std::string_view kNames[] = {"batch", "data", "examples", "inputs"};
  const std::string_view name = path.substr(0, path.find_first_of("[."));
  if (std::ranges::find(kNames, name) != std::end(kNames)) return true;
  constexpr std::string_view kTokens[] = {"s32", "s64", "u32"};
  return arrays.size() == 1 && arrays[0].dims.size() > 1 &&
         std::ranges::find(kTokens, arrays[0].element) != std::end(kTokens);
}

}  // namespace

Entry::Entry(const Graph& graph) {
  const hlo::Computation& entry = graph.BlockAt(graph.program().entry);
  for (Node node = entry.begin; node < entry.end; ++node) {
    const hlo::Instruction at = graph.At(node);
    if (at.opcode != "parameter") continue;
    Param param{std::string(at.name), {}, true};
    const auto arrays = hlo::ArraysOf(at.type);
    if (const auto path = hlo::OpNameOf(at)) {
      param.name = imports::NameOfPath(*path);
      param.is_input = param.name == *path || IsOfBatch(*path, arrays);
    }
    if (arrays.size() == 1) param.array = arrays[0];
    const Param& kept = params_.emplace(node, std::move(param)).first->second;
    Dims dims = kept.array.dims;
    if (kept.is_input || dims.empty()) continue;
    by_name_.emplace(kept.name, &kept);
    by_dims_[dims].push_back(&kept);
    dims.erase(dims.begin());
    if (!dims.empty()) by_layer_[dims].push_back(&kept);
  }
}

Moved Entry::Of(Node parameter) const {
  const auto found = params_.find(parameter);
  if (found == params_.end()) return {};
  const Param& param = found->second;
  return {param.is_input ? What::kInput : What::kParameter, param.name, {}};
}

bool Entry::Look(const Dims& dims, int64_t runs, std::string_view name,
                 bool transposed) const {
  // Returns whether `runs` is a multiple of the parameter's first dimension, as
  // in a loop over the layers of a stacked parameter.
  const auto layered = [&](const Param& param) {
    const int64_t first = param.array.dims.front();
    return runs > 1 && first > 1 && runs % first == 0;
  };
  const auto whole = [&](const Param& param) { return !layered(param); };
  // Outside of loops, an array may be one layer's slice of a stacked parameter.
  const auto layer = [&](const Param& param) {
    return runs == 1 || layered(param);
  };
  const auto any = [&](const auto& params, const auto& counts) {
    const auto found = params.find(dims);
    return found != params.end() &&
           std::ranges::any_of(found->second, [&](const Param* param) {
             return counts(*param);
           });
  };
  const auto fits = [&](const auto& named) {
    const Param& param = *named.second;
    const Dims& all = param.array.dims;
    return (all == dims && whole(param)) ||
           (std::ranges::equal(Dims(all.begin() + 1, all.end()), dims) &&
            layer(param));
  };
  const auto [first, last] = by_name_.equal_range(name);
  if (name.empty() ? any(by_dims_, whole) || any(by_layer_, layer)
                   : std::any_of(first, last, fits)) {
    return true;
  }
  // The compiler may transpose a matrix before a collective.
  return dims.size() == 2 && dims[0] != dims[1] && !transposed &&
         Look({dims[1], dims[0]}, runs, name, true);
}

bool Entry::HasShape(const hlo::Array& array, int64_t runs,
                     std::string_view name, bool sliced) const {
  if (Look(array.dims, runs, name)) return true;
  // The slice of one layer may keep its layer dimension, of size 1.
  return sliced && array.dims.size() > 1 && array.dims.front() == 1 &&
         Look({array.dims.begin() + 1, array.dims.end()}, runs, name);
}

bool Entry::HasGradient(const hlo::Array& array, int64_t runs,
                        int64_t members) const {
  if (HasShape(array, runs)) return true;
  hlo::Array part = array;
  for (int64_t& dim : part.dims) {
    if (members < 2 || dim % members != 0) continue;
    const int64_t before = dim;
    dim /= members;
    if (HasShape(part, runs, {}, false)) return true;
    dim = before;
  }
  return false;
}

}  // namespace shardc::audit
