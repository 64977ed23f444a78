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

#include "hlo/shapes.h"
#include "source/index.h"

namespace shardc::audit {
namespace {

constexpr int kDeepestUse = 64;
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
        return IsMove(opcode) ? Verdict::kFollow : Verdict::kNo;
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

}  // namespace shardc::audit
