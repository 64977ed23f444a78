// Follows the result of an instruction forward to its uses. The search passes
// through instructions that only move a value. It enters a fusion at the
// parameter that receives the value, and continues after the fusion if the
// value reaches the fusion's root. For example, the only use of %g is a slice:
//
//   %g = all-gather(%x)
//   %f = fusion(%g), calls=%slice      parameter 0 of slice
//     %d = dynamic-slice(%p0, ...)     the slice
//
// The uses in a computation are listed when a search first reaches the
// computation.
#include "audit/uses.h"

#include <algorithm>
#include <string_view>

#include "comm/collective.h"
#include "hlo/groups.h"
#include "source/size.h"

namespace shardc::audit {
namespace {

constexpr int kDeepestUse = 64;
constexpr int64_t kMostFound = 512;  // limit on the values of one search
// Instructions that only pass a value on: they change its shape, order, dtype
// or memory, gather it, or put it into a tuple or take it out. Asynchronous
// operations are included.
constexpr std::string_view kMoves[] = {
    "bitcast", "copy",        "copy-start",        "copy-done",
    "reshape", "transpose",   "opt-barrier",       "optimization-barrier",
    "convert", "all-gather",  "all-gather-start",  "all-gather-done",
    "tuple",   "async-start", "get-tuple-element", "all-reduce-done"};

bool IsMove(std::string_view opcode) {
  return std::ranges::find(kMoves, opcode) != std::end(kMoves);
}

// Returns the bits of a floating-point type; 0 for other types.
int64_t FloatBits(const hlo::Instruction& at) {
  const auto arrays = hlo::ArraysOf(at.type, hlo::kOneOrMore);
  if (arrays.size() != 1) return 0;
  const std::string_view element = arrays[0].element;
  return element.starts_with('f') || element.starts_with("bf") ? arrays[0].bits
                                                               : 0;
}

}  // namespace

// Builds the list of users in two passes: the first pass counts the users of
// each instruction, the second stores them.
std::span<const Uses::User> Uses::UsersOf(Node node) {
  const Block block = graph_.BlockOf(node);
  const hlo::Computation& computation = graph_.BlockAt(block);
  const Node begin = computation.begin;
  const auto [found, added] = users_.try_emplace(block);
  Users& users = found->second;
  if (added) {
    users.first.assign(computation.end - begin + 2, 0);
    for (Node user = begin; user < computation.end; ++user) {
      for (const Node operand : graph_.Operands(user)) {
        if (operand != kNoNode) ++users.first[operand - begin + 2];
      }
    }
    for (size_t i = 2; i < users.first.size(); ++i) {
      users.first[i] += users.first[i - 1];
    }
    users.all.resize(users.first.back());
    for (Node user = begin; user < computation.end; ++user) {
      const auto operands = graph_.Operands(user);
      for (uint32_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == kNoNode) continue;
        // During this loop, `first[i + 1]` is the index in `all` for the next
        // user of instruction i. After the loop, it is the index after the last
        // user of i, which is the index of the first user of i + 1.
        users.all[users.first[operands[i] - begin + 1]++] = {user, i};
      }
    }
    users.first.pop_back();
  }
  const uint32_t first = users.first[node - begin];
  return std::span(users.all).subspan(first,
                                      users.first[node - begin + 1] - first);
}

std::optional<Node> Uses::Parameter(Block block, size_t number) const {
  const hlo::Computation& computation = graph_.BlockAt(block);
  for (Node node = computation.begin; node < computation.end; ++node) {
    const hlo::Instruction at = graph_.At(node);
    if (at.opcode == "parameter" &&
        hlo::LeadingNumber(at.operands) == static_cast<int64_t>(number)) {
      return node;
    }
  }
  return std::nullopt;
}

bool Uses::AllOf(const Use& use, const Judge& judge, int depth) {
  switch (judge(use)) {
    case Verdict::kYes:
      return true;
    case Verdict::kNo:
      return false;
    case Verdict::kFollow:
      break;
  }
  const hlo::Instruction at = graph_.At(use.user);
  if (at.opcode != "fusion") {
    const bool tuple = at.opcode == "tuple";
    return All(
        use.user,
        tuple ? std::optional(static_cast<int64_t>(use.index)) : std::nullopt,
        judge, depth + 1);
  }
  const auto calls = graph_.CallsFrom(use.user);
  if (calls.empty()) return false;
  const auto parameter = Parameter(calls[0].to, use.index);
  return parameter && All(*parameter, std::nullopt, judge, depth + 1);
}

bool Uses::All(Node node, std::optional<int64_t> element, const Judge& judge,
               int depth) {
  if (depth > kDeepestUse) return false;
  const Block block = graph_.BlockOf(node);
  const bool is_root = graph_.BlockAt(block).root == node;
  bool any = false;
  for (const User& one : UsersOf(node)) {
    if (--steps_left_ < 0) return false;
    const hlo::Instruction user = graph_.At(one.node);
    if (element && user.opcode == "get-tuple-element") {
      const auto index = hlo::AttributeOf(user.attributes, "index");
      if (!index || hlo::LeadingNumber(*index) != element) continue;
    }
    if (!AllOf({node, one.node, one.index}, judge, depth)) return false;
    any = true;
  }
  if (!is_root) return any;
  // The node is the root of its computation. If a fusion calls the computation,
  // the fusion returns the node's result, so users of the fusion use the node.
  const Call* call = graph_.CallOf(block);
  if (call == nullptr || graph_.At(call->from).opcode != "fusion") {
    return judge({node, node, 0}) == Verdict::kYes;
  }
  return All(call->from, element, judge, depth + 1);
}

bool Uses::CollectUse(const Use& use, std::optional<int64_t> element, int depth,
                      std::vector<Consumer>& out) {
  const hlo::Instruction user = graph_.At(use.user);
  if (user.opcode == "get-tuple-element") {
    const auto index = hlo::AttributeOf(user.attributes, "index");
    if (!element || !index) return false;
    return hlo::LeadingNumber(*index) != element ||
           Collect(use.user, std::nullopt, depth + 1, out);
  }
  if (user.opcode == "tuple") {
    return !element &&
           Collect(use.user, static_cast<int64_t>(use.index), depth + 1, out);
  }
  if (user.opcode.ends_with("-done") || user.opcode == "async-update") {
    return Collect(use.user, element, depth + 1, out);
  }
  constexpr std::string_view kLeave[] = {"while", "conditional", "opt-barrier",
                                         "optimization-barrier"};
  if (std::ranges::find(kLeave, user.opcode) != std::end(kLeave)) return false;
  const auto calls = graph_.CallsFrom(use.user);
  if (calls.empty()) {
    out.push_back({use.user, use.index});
    return true;
  }
  const auto parameter = Parameter(calls[0].to, use.index);
  return parameter && Collect(*parameter, element, depth + 1, out);
}

bool Uses::Collect(Node node, std::optional<int64_t> element, int depth,
                   std::vector<Consumer>& out) {
  if (depth > kDeepestUse) return false;
  const Block block = graph_.BlockOf(node);
  for (const User& one : UsersOf(node)) {
    if (--steps_left_ < 0 ||
        !CollectUse({node, one.node, one.index}, element, depth, out)) {
      return false;
    }
  }
  if (graph_.BlockAt(block).root != node) return true;
  const Call* call = graph_.CallOf(block);
  return call != nullptr && call->kind == CallKind::kOnce &&
         Collect(call->from, element, depth + 1, out);
}

std::optional<std::vector<Uses::Consumer>> Uses::ConsumersOf(
    Node node, std::optional<int64_t> element) {
  std::vector<Consumer> out;
  if (!Collect(node, element, 0, out)) return std::nullopt;
  return out;
}

std::optional<Node> Uses::FindFrom(
    const Value& value, const std::function<Seek(Node, size_t)>& seek,
    std::set<std::pair<Node, std::vector<int64_t>>>& seen) {
  if (--steps_left_ < 0 || std::ssize(seen) > kMostFound ||
      value.path.size() > kDeepestTuple ||
      !seen.emplace(value.node, value.path).second) {
    return std::nullopt;
  }
  const auto next = [&](Node node, std::vector<int64_t> path) {
    return FindFrom({node, std::move(path)}, seek, seen);
  };
  for (const User& user : UsersOf(value.node)) {
    const hlo::Instruction at = graph_.At(user.node);
    std::optional<Node> found;
    std::vector<int64_t> path = value.path;
    if (at.opcode == "get-tuple-element") {
      const auto index = ElementIndexOf(at);
      if (path.empty() || !index || path.back() != *index) continue;
      path.pop_back();
      found = next(user.node, std::move(path));
    } else if (at.opcode == "tuple") {
      path.push_back(user.index);
      found = next(user.node, std::move(path));
    } else if (at.opcode == "while" || at.opcode == "fusion" ||
               at.opcode == "call") {
      const auto calls = graph_.CallsFrom(user.node);
      const auto body = std::ranges::find_if(calls, [](const Call& call) {
        return call.kind != CallKind::kCondition;
      });
      if (body == calls.end()) continue;
      const auto parameter = Parameter(body->to, user.index);
      if (parameter) found = next(*parameter, std::move(path));
    } else if (at.opcode.ends_with("-done") || at.opcode.ends_with("barrier")) {
      found = next(user.node, std::move(path));
    } else {
      const Seek seeks = seek(user.node, user.index);
      if (seeks == Seek::kFound) return user.node;
      if (seeks == Seek::kFollow) found = next(user.node, {});
    }
    if (found) return found;
  }
  // The root of a fusion or call is the result of the instruction that calls.
  const Block block = graph_.BlockOf(value.node);
  const Call* call = graph_.CallOf(block);
  if (graph_.BlockAt(block).root != value.node || call == nullptr ||
      call->kind != CallKind::kOnce) {
    return std::nullopt;
  }
  return next(call->from, value.path);
}

std::optional<Node> Uses::Find(Node node, std::optional<int64_t> element,
                               const std::function<Seek(Node, size_t)>& seek) {
  std::set<std::pair<Node, std::vector<int64_t>>> seen;
  Value value{node, {}};
  if (element) value.path.push_back(*element);
  return FindFrom(value, seek, seen);
}

bool Uses::AllSlice(Node node, std::optional<int64_t> element) {
  return All(
      node, element,
      [this](const Use& use) {
        if (use.of == use.user) return Verdict::kNo;
        const std::string_view opcode = graph_.At(use.user).opcode;
        if (opcode == "dynamic-slice" && use.index == 0) return Verdict::kYes;
        return IsMove(opcode) || opcode == "fusion" ? Verdict::kFollow
                                                    : Verdict::kNo;
      },
      0);
}

bool Uses::AllSort(Node node, std::optional<int64_t> element) {
  return All(
      node, element,
      [this](const Use& use) {
        if (use.of == use.user) return Verdict::kNo;
        const hlo::Instruction user = graph_.At(use.user);
        if (user.opcode == "sort" || user.opcode == "topk" ||
            user.attributes.find("TopK") != std::string_view::npos) {
          return Verdict::kYes;
        }
        return IsMove(user.opcode) || user.opcode == "fusion" ? Verdict::kFollow
                                                              : Verdict::kNo;
      },
      0);
}

bool Uses::ReachOutput(Node node) {
  const Block entry = graph_.program().entry;
  return All(
      node, std::nullopt,
      [&](const Use& use) {
        if (use.of == use.user) {
          return graph_.BlockOf(use.of) == entry ? Verdict::kYes : Verdict::kNo;
        }
        const std::string_view opcode = graph_.At(use.user).opcode;
        return IsMove(opcode) || opcode == "fusion" ? Verdict::kFollow
                                                    : Verdict::kNo;
      },
      0);
}

bool Uses::ReachLoop(Node node, int depth) {
  // In TPU programs, one fusion may hold a collective, and other fusions may
  // hold the operations that use its result. The search therefore continues
  // with the users of the fusion.
  const Call* call = graph_.CallOf(graph_.BlockOf(node));
  if (call != nullptr && call->kind == CallKind::kOnce &&
      depth <= kDeepestUse) {
    return ReachLoop(call->from, depth + 1);
  }
  for (const User& one : UsersOf(node)) {
    if (--steps_left_ < 0 || depth > kDeepestUse) return false;
    const std::string_view opcode = graph_.At(one.node).opcode;
    if (opcode == "while") return true;
    const bool follows = IsMove(opcode) || opcode == "fusion";
    if (follows && ReachLoop(one.node, depth + 1)) return true;
  }
  return false;
}

bool Uses::AllNarrow(Node node, std::optional<int64_t> element) {
  return All(
      node, element,
      [this](const Use& use) {
        if (use.of == use.user) return Verdict::kNo;
        const hlo::Instruction user = graph_.At(use.user);
        if (user.opcode == "convert") {
          const int64_t before = FloatBits(graph_.At(use.of));
          const int64_t after = FloatBits(user);
          return after > 0 && after < before ? Verdict::kYes : Verdict::kNo;
        }
        const bool slices = use.index == 0 && (user.opcode == "slice" ||
                                               user.opcode == "dynamic-slice");
        return IsMove(user.opcode) || slices || user.opcode == "fusion"
                   ? Verdict::kFollow
                   : Verdict::kNo;
      },
      0);
}

// Searches from a value back through instructions whose result has the elements
// of their operands: moves, arithmetic by elements, collectives, calls, loops
// and conditionals. For example, the new weight of a training step is computed
// from the old weight, the moment of the optimizer and a sum over devices:
//
//   %new  = subtract(%w, %step)         w is an argument
//   %step = multiply(%m.new, %rate)     rate is broadcast, so it is skipped
//   %m.new = add(%m, %g)                m is an argument
//   %g    = all-reduce(%matmul)        a collective; the matmul of matrices
//                                       ends the search
//
// In contrast to a Tracer, the search follows all operands, and all iterations
// of a loop. It remembers through which call it entered a computation, so that
// a computation with several callers is left to the right one.

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

bool IsArithmetic(std::string_view opcode) { return IsIn(kArithmetic, opcode); }

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
  if (through_collectives_) FollowOperand(operand, AsIndex(index));
}

void Elementwise::Follow(const State& state, Origins& out) {
  const hlo::Instruction at = graph_.At(state.value.node);
  if (at.opcode == "parameter") return FollowParameter(state, out);
  if (at.opcode == "gather") out.lookups.insert(state.value.node);
  if (at.opcode == "dot") out.matmuls.insert(state.value.node);
  if (at.opcode == "dynamic-slice") out.slices.insert(state.value.node);
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
  if (IsArithmetic(at.opcode)) return FollowElements(state);
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

Origins Elementwise::OriginsOf(Value value, bool through_collectives) {
  Origins out;
  through_collectives_ = through_collectives;
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
