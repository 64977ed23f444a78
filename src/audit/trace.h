// Follows a value back through instructions that only move it.
#ifndef SHARDC_AUDIT_TRACE_H_
#define SHARDC_AUDIT_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/graph.h"

namespace shardc::audit {

// A result of an instruction, or an element of a tuple that it returns. Element
// 0 of element 1 has the path {0, 1}.
struct Value {
  Node node = 0;
  std::vector<int64_t> path = {};  // innermost element first
  bool operator==(const Value&) const = default;
};

inline constexpr size_t kDeepestTuple = 64;  // limit on nested tuples

// Returns whether instructions of this opcode return their operand 0, or a part
// of it, in another shape, dtype, order or memory, or that of another device.
bool IsForwarding(std::string_view opcode);
// Returns the index of a `get-tuple-element`.
std::optional<int64_t> ElementIndexOf(const hlo::Instruction& element);

class Tracer {
 public:
  explicit Tracer(const Graph& graph) : graph_(graph) {}

  // Returns the origin of a value: a parameter of the entry or of the
  // computation `stop`, or the result of an instruction that computes a new
  // value. The search follows copies, casts, reshapes, slices, gathers,
  // permutes, tuples and their elements. It also follows fusions, calls, loops
  // that leave an element unchanged, and loops that stack values.
  Value SourceOf(Value value, std::optional<Block> stop = std::nullopt);

  // Returns the result of the instruction that computes `value`. The search
  // goes back only through tuples, their elements, calls, fusions, asynchronous
  // operations, `all-reduce-done` and loops that leave the value unchanged. It
  // stops at every other instruction, even at a `copy`.
  Value ResultOf(Value value);

  // Returns the value one step before `value` on the path that SourceOf
  // follows. Returns nullopt at the origin, and if the limit on steps is
  // reached.
  std::optional<Value> Back(const Value& value);

  // Returns whether a loop's body returns this element of its state unchanged.
  // This is the case if the returned element has its origin (SourceOf) in the
  // same element of the body's parameter. Returns false if the search reaches a
  // limit.
  bool LeavesUnchanged(Block body, const std::vector<int64_t>& path);

  // Returns the value of an integer constant; nullopt for other values.
  std::optional<int64_t> ConstantOf(const Value& value) const;

 private:
  // Returns the value one step before `value`. Returns nullopt at the origin,
  // and at a parameter of `stop`.
  std::optional<Value> Step(const Value& value, std::optional<Block> stop);
  std::optional<Value> FromParameter(const Value& value,
                                     std::optional<Block> stop);
  // Returns the value that a call passes to parameter number `parameter` of the
  // called computation. `value` is this parameter, or an element of it.
  std::optional<Value> FromCall(const Call& call, size_t parameter,
                                const Value& value);
  std::optional<Value> ThroughLoop(Node loop, const Value& value);
  // Returns the value in a loop's body of which the loop's element is a stack:
  // each iteration writes it with a `dynamic-update-slice`, and the first
  // element was a constant. Returns nullopt for other elements.
  std::optional<Value> StackedBy(Node loop, const Value& value);
  std::optional<Value> OperandOf(const Value& value, size_t index,
                                 std::vector<int64_t> path);
  // Subtracts the cost of reading `read` operands, or `read` bytes of
  // attributes, from the remaining steps. 64 operands or bytes cost one step.
  void Charge(size_t read) { steps_left_ -= static_cast<int64_t>(read / 64); }

  const Graph& graph_;
  // Limits the steps of all traces together. Without this limit, a hostile text
  // with nested loops would take exponential time.
  int64_t steps_left_ = int64_t{1} << 24;
  int depth_ = 0;
  std::map<std::pair<Block, std::vector<int64_t>>, bool> unchanged_;
};

// Returns how often a loop's body runs. The text states this number if the
// compiler recorded it. Otherwise the number is computed from the loop's
// counter, if its start, limit and step are constants. Returns nullopt in other
// cases.
std::optional<int64_t> TripsOf(const Graph& graph, Tracer& tracer, Node loop);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_TRACE_H_
