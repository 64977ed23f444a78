// Searches from a value back through instructions whose result has the elements
// of their operands: moves, arithmetic by elements, collectives, calls, loops
// and conditionals. For example, the new weight of a training step is computed
// from the old weight, the moment of the optimizer and a sum over devices:
//
//   %new  = subtract(%w, %step)         w is an argument
//   %step = multiply(%m.new, %rate)     rate is broadcast, so it is skipped
//   %m.new = add(%m, %g)                m is an argument
//   %g    = all-reduce(%product)        a collective; the product of matrices
//                                       ends the search
//
// In contrast to a Tracer, the search follows all operands, and all iterations
// of a loop. It remembers through which call it entered a computation, so that
// a computation with several callers is left to the right one.
#include "audit/elementwise.h"

#include <algorithm>

#include "comm/collective_def.h"
#include "hlo/shapes.h"
#include "source/index.h"

namespace shardc::audit {
namespace {

constexpr std::string_view kArithmetic[] = {"abs",
                                            "add",
                                            "and",
                                            "cbrt",
                                            "ceil",
                                            "clamp",
                                            "compare",
                                            "divide",
                                            "exponential",
                                            "floor",
                                            "is-finite",
                                            "log",
                                            "maximum",
                                            "minimum",
                                            "multiply",
                                            "negate",
                                            "not",
                                            "or",
                                            "power",
                                            "remainder",
                                            "round-nearest-afz",
                                            "round-nearest-even",
                                            "rsqrt",
                                            "select",
                                            "sign",
                                            "sqrt",
                                            "subtract",
                                            "tanh",
                                            "xor"};
// Instructions of which each element of the result is an element of one of
// their operands: of all of them, or of the operands 0 and 1.
constexpr std::string_view kJoins[] = {"concatenate", "dynamic-update-slice"};
constexpr std::string_view kDone[] = {"all-gather-done", "all-reduce-done"};

bool IsIn(std::span<const std::string_view> list, std::string_view opcode) {
  return std::ranges::find(list, opcode) != list.end();
}

bool IsCollective(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  return FindOpcode(opcode).has_value();
}

// Returns whether both types are arrays of equally many elements, more than
// one. A reduction or a broadcast between them only adds or removes dimensions
// of size 1.
bool HaveSameSize(std::string_view a, std::string_view b) {
  const auto first = hlo::ArraysOf(a, hlo::kOneOrMore);
  const auto second = hlo::ArraysOf(b, hlo::kOneOrMore);
  if (first.size() != 1 || second.size() != 1) return false;
  const Size size = first[0].Elements();
  return size.value() > 1 && size.value() == second[0].Elements().value();
}

// Returns the dimensions of a type; empty for tuples and scalars.
std::vector<int64_t> DimsOf(std::string_view type) {
  auto arrays = hlo::ArraysOf(type, hlo::kOneOrMore);
  return arrays.size() == 1 ? std::move(arrays[0].dims)
                            : std::vector<int64_t>();
}

}  // namespace

void Elementwise::Add(Node node, std::vector<int64_t> path, uint32_t call) {
  if (!seen_.emplace(node, path, call).second) return;
  open_.push_back({{node, std::move(path)}, call});
}

void Elementwise::FollowOperand(const State& state, size_t index) {
  const auto operand = graph_.Operand(state.value.node, index);
  if (operand) Add(*operand, state.value.path, state.call);
}

void Elementwise::FollowElements(const State& state) {
  const auto dims = DimsOf(graph_.At(state.value.node).type);
  if (dims.empty()) return;
  for (const Node operand : graph_.Operands(state.value.node)) {
    if (operand != kNoNode && DimsOf(graph_.At(operand).type) == dims) {
      Add(operand, state.value.path, state.call);
    }
  }
}

void Elementwise::Enter(const Call& call, const State& state) {
  if (graph_.BlockAt(call.to).empty()) return;
  const auto [at, added] = known_calls_.try_emplace(
      {state.call, call.from, call.to}, static_cast<uint32_t>(calls_.size()));
  if (added) calls_.push_back({call, state.call});
  Add(graph_.BlockAt(call.to).root, state.value.path, at->second);
}

void Elementwise::FollowParameter(const State& state, Origins& out) {
  const Block block = graph_.BlockOf(state.value.node);
  if (block == graph_.program().entry) {
    out.arguments.insert(state.value.node);
    return;
  }
  const Call* call = &calls_[state.call].call;
  const uint32_t outside = calls_[state.call].from;
  if (state.call == 0) {
    // The search began in this computation, or in one that this one called.
    call = graph_.IsShared(block) ? nullptr : graph_.CallOf(block);
  }
  const auto number =
      hlo::LeadingNumber(graph_.At(state.value.node).operands).value_or(-1);
  if (call == nullptr || number < 0) return;
  const State caller{{call->from, state.value.path}, outside};
  switch (call->kind) {
    case CallKind::kOnce:
      return FollowOperand(caller, AsIndex(number));
    case CallKind::kBranch:
      return FollowOperand(caller, AsIndex(call->branch) + 1);
    case CallKind::kCondition:
      return FollowOperand(caller, 0);
    case CallKind::kBody:
      // The value of the first iteration, and that of the one before.
      FollowOperand(caller, 0);
      Add(graph_.BlockAt(block).root, state.value.path, state.call);
  }
}

void Elementwise::FollowCalls(const State& state) {
  const std::string_view opcode = graph_.At(state.value.node).opcode;
  if (opcode == "while") FollowOperand(state, 0);
  for (const Call& call : graph_.CallsFrom(state.value.node)) {
    if (call.kind != CallKind::kCondition) Enter(call, state);
  }
}

void Elementwise::FollowCollective(const State& state, Origins& out) {
  State operand = state;
  int64_t index = 0;
  if (!operand.value.path.empty()) {
    index = operand.value.path.back();
    operand.value.path.pop_back();
  }
  if (index < 0) return;
  out.collectives.emplace(state.value.node, index);
  FollowOperand(operand, AsIndex(index));
}

void Elementwise::Follow(const State& state, Origins& out) {
  const hlo::Instruction at = graph_.At(state.value.node);
  if (at.opcode == "parameter") return FollowParameter(state, out);
  if (at.opcode == "gather") out.lookups.insert(state.value.node);
  if (at.opcode == "get-tuple-element") {
    const auto index = ElementIndexOf(at);
    if (!index || state.value.path.size() > kDeepestTuple) return;
    State of = state;
    of.value.path.push_back(*index);
    return FollowOperand(of, 0);
  }
  if (at.opcode == "tuple") {
    if (state.value.path.empty() || state.value.path.back() < 0) return;
    State element = state;
    const auto index = AsIndex(element.value.path.back());
    element.value.path.pop_back();
    return FollowOperand(element, index);
  }
  if (IsCollective(at.opcode)) return FollowCollective(state, out);
  if (IsForwarding(at.opcode) || IsIn(kDone, at.opcode) || at.opcode == "pad") {
    return FollowOperand(state, 0);
  }
  if (at.opcode == "copy-start") {
    return FollowOperand({{state.value.node, {}}, state.call}, 0);
  }
  if (IsIn(kJoins, at.opcode)) {
    const size_t all = graph_.Operands(state.value.node).size();
    const size_t joined = at.opcode == "concatenate" ? all : 2;
    for (size_t i = 0; i < std::min(joined, all); ++i) FollowOperand(state, i);
    return;
  }
  if (IsIn(kArithmetic, at.opcode)) return FollowElements(state);
  if (at.opcode == "reduce" || at.opcode == "broadcast") {
    const auto operand = graph_.Operand(state.value.node, 0);
    if (operand && HaveSameSize(graph_.At(*operand).type, at.type)) {
      FollowOperand(state, 0);
    }
    return;
  }
  constexpr std::string_view kCalls[] = {"fusion", "call", "async-start",
                                         "while", "conditional"};
  if (IsIn(kCalls, at.opcode)) FollowCalls(state);
}

Origins Elementwise::OriginsOf(Value value) {
  Origins out;
  calls_ = {Entered()};
  known_calls_.clear();
  seen_.clear();
  Add(value.node, std::move(value.path), 0);
  while (!open_.empty() && steps_left_-- > 0) {
    const State state = std::move(open_.back());
    open_.pop_back();
    Follow(state, out);
  }
  open_.clear();
  return out;
}

}  // namespace shardc::audit
