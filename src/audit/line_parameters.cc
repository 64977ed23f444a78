// A gradient is not an entry parameter, and a loop may change the value that is
// gathered in it, so that no trace leads from a collective to the parameter.
// But the forward and the backward pass are made of the same lines: the
// gradient of `up` comes from the line that multiplies by `up`.
//
//   dot(%x, %up)   jit(f)/jvp(mlp)/dot_general               stack_frame_id=7
//   dot(%x, %dy)   jit(f)/transpose(jvp(mlp))/dot_general    stack_frame_id=7
//     ->  the second product may be the gradient of `up`
//
// Operations are of one expression if their stack frames are equal, which have
// columns, and of one line if the lines of their stacks are equal. Named scopes
// keep the layers of an unrolled model apart.
#include "audit/line_parameters.h"

#include <algorithm>
#include <unordered_map>

#include "audit/origin.h"
#include "audit/trace.h"
#include "hlo/instruction.h"

namespace shardc::audit {
namespace {

// Returns whether instructions of this opcode pass several values on, so that
// their operands are not values that one line uses.
bool PassesOn(std::string_view opcode) {
  constexpr std::string_view kOpcodes[] = {
      "tuple",       "get-tuple-element",
      "while",       "conditional",
      "call",        "fusion",
      "opt-barrier", "optimization-barrier"};
  return std::ranges::find(kOpcodes, opcode) != std::end(kOpcodes);
}

}  // namespace

// Returns texts that are equal for operations of one expression, and of one
// line. A text is empty if the line is unknown.
LineParameters::Keys LineParameters::KeysOf(std::string_view metadata) const {
  const auto stack = frames_.StackOf(metadata);
  if (stack.empty()) return {};
  const std::string scope =
      " " + ScopeOf(hlo::MemberOf(metadata, "op_name").value_or(""));
  Keys out;
  if (const auto frame = hlo::MemberOf(metadata, "stack_frame_id")) {
    out[0] = std::string(*frame) + scope;
  }
  for (const hlo::SourceLine& line : stack) {
    out[1] += std::string(line.file) + ":" + std::to_string(line.line) + " ";
  }
  out[1] += scope;
  return out;
}

LineParameters::LineParameters(const Graph& graph, const Entry& entry,
                               std::span<const std::string_view> metadata)
    : frames_(graph.program().frames) {
  // The keys of metadata that have been read. Many instructions have equal
  // metadata.
  std::unordered_map<std::string_view, Keys> known;
  const auto keys_of = [&](std::string_view text) -> const Keys& {
    const auto [at, added] = known.try_emplace(text);
    if (added) at->second = KeysOf(text);
    return at->second;
  };
  for (const std::string_view one : metadata) {
    for (const std::string& key : keys_of(one)) {
      if (!key.empty()) parameters_.try_emplace(key);
    }
  }
  if (parameters_.empty()) return;
  Tracer tracer(graph);
  for (const Block block : graph.order()) {
    const hlo::Computation& computation = graph.BlockAt(block);
    for (Node node = computation.begin; node < computation.end; ++node) {
      const hlo::Instruction at = graph.At(node);
      if (PassesOn(at.opcode)) continue;
      const std::string_view text = hlo::MetadataOf(at);
      if (text.empty()) continue;
      std::set<Node> used;
      bool traced = false;
      for (const std::string& key : keys_of(text)) {
        const auto found = parameters_.find(key);
        if (found == parameters_.end()) continue;
        if (!traced) {
          for (const Node operand : graph.Operands(node)) {
            if (operand == kNoNode) continue;
            const Node source = tracer.SourceOf({operand, {}}).node;
            if (entry.Of(source).what == What::kParameter) used.insert(source);
          }
          traced = true;
        }
        found->second.insert(used.begin(), used.end());
      }
    }
  }
}

std::array<const std::set<Node>*, 2> LineParameters::Of(
    std::string_view metadata) const {
  std::array<const std::set<Node>*, 2> out = {&none_, &none_};
  const Keys keys = KeysOf(metadata);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = parameters_.find(keys[i]);
    if (found != parameters_.end()) out[i] = &found->second;
  }
  return out;
}

}  // namespace shardc::audit
