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
#include "audit/trace.h"

#include <algorithm>
#include <string_view>

#include "source/index.h"

namespace shardc::audit {
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

}  // namespace shardc::audit
