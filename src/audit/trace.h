// Follows a value back through instructions that only move it.
#ifndef SHARDC_AUDIT_TRACE_H_
#define SHARDC_AUDIT_TRACE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "audit/graph.h"

namespace shardc::audit {

// A result of an instruction, or an element of it if that is a tuple: {1, 0}
// is element 0 of element 1, stored in reverse.
struct Value {
  Node node = 0;
  std::vector<int64_t> path = {};  // innermost element first
  bool operator==(const Value&) const = default;
};

class Tracer {
 public:
  explicit Tracer(const Graph& graph) : graph_(graph) {}

  // Returns where the value comes from: a parameter of the entry or of `stop`,
  // or the result of an instruction that computes. Copies, casts, reshapes,
  // slices, gathers, tuples and their elements are followed, also through
  // fusions, calls and loops that leave an element unchanged.
  Value SourceOf(Value value, std::optional<Block> stop = std::nullopt);

  // Returns the result of an instruction that the value is: tuples, elements,
  // calls, dones, and loops that leave it unchanged are followed, but no
  // instruction that makes another value.
  Value ResultOf(Value value);

  // Returns the value one step back on that way; nullopt at its end.
  std::optional<Value> Back(const Value& value);

  // Whether a loop's body returns this element of its state as it got it.
  bool LeavesUnchanged(Block body, const std::vector<int64_t>& path);

  // Returns the value of an integer constant.
  std::optional<int64_t> ConstantOf(const Value& value) const;

 private:
  // One step back; nullopt if there is none.
  std::optional<Value> Step(const Value& value, std::optional<Block> stop);
  std::optional<Value> FromParameter(const Value& value,
                                     std::optional<Block> stop);
  std::optional<Value> ThroughLoop(Node loop, const Value& value);
  std::optional<Value> OperandOf(const Value& value, size_t index,
                                 std::vector<int64_t> path);
  // Counts the reading of so many operands or bytes of attributes.
  void Charge(size_t read) { steps_left_ -= static_cast<int64_t>(read / 64); }

  const Graph& graph_;
  // Bounds the work of all traces together: loops in loops of a hostile text
  // would be traced again from each collective.
  int64_t steps_left_ = int64_t{1} << 24;
  int depth_ = 0;
  std::map<std::pair<Block, std::vector<int64_t>>, bool> unchanged_;
};

// Returns how often a loop's body runs: as the compiler has noted, or from the
// loop's counter, its limit and its step if these are constants; else nullopt.
std::optional<int64_t> TripsOf(const Graph& graph, Tracer& tracer, Node loop);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_TRACE_H_
