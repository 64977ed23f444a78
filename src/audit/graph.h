// Represents the instructions of a program as a graph. It finds the instruction
// that an operand's name refers to, and the instructions that call a
// computation.
#ifndef SHARDC_AUDIT_GRAPH_H_
#define SHARDC_AUDIT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo/groups.h"
#include "hlo/program.h"
#include "source/finding.h"

namespace shardc::audit {

// Node is an index into hlo::Program::instructions, and Block is an index into
// hlo::Program::computations.
using Node = uint32_t;
using Block = uint32_t;
inline constexpr Node kNoNode = UINT32_MAX;

enum class CallKind : uint8_t {
  kOnce,       // run once, by a fusion, call or async-start
  kBody,       // the body of a loop
  kCondition,  // a loop's condition: runs once more than its body
  kBranch      // a branch of a conditional
};

struct Call {
  Node from = 0;
  Block to = 0;
  CallKind kind = CallKind::kOnce;
  int64_t branch = 0;  // index of the branch, for kBranch
};

class Graph {
 public:
  // Finds the calls. Returns nullopt after a finding (foreign-syntax) if a call
  // names a computation that is not in the text, or if computations call each
  // other in a cycle. The program must outlive the graph.
  static std::optional<Graph> Of(const hlo::Program& program,
                                 Findings& findings);

  const hlo::Program& program() const { return *program_; }
  hlo::Instruction At(Node node) const { return program_->instructions[node]; }
  const hlo::Computation& BlockAt(Block block) const {
    return program_->computations[block];
  }
  Block BlockOf(Node node) const;
  // Returns the operands of an instruction. An operand that the text does not
  // define is kNoNode. Constants and parameters have no operands.
  std::span<const Node> Operands(Node node) const;
  std::optional<Node> Operand(Node node, size_t index) const;

  // Returns the calls from an instruction, in the text's order.
  std::vector<Call> CallsFrom(Node node) const;
  // Returns the first call to a computation. Returns null if no computation
  // that the entry reaches calls it.
  const Call* CallOf(Block block) const;
  // Returns whether several calls of a computation are reached from the entry,
  // so that its parameters can have different values.
  bool IsShared(Block block) const { return shared_[block]; }
  // Returns the calls that computations reached from the entry make. All calls
  // to a computation come before the calls that the computation makes.
  const std::vector<Call>& calls() const { return calls_; }
  // Returns the computations that the entry reaches, callers first.
  const std::vector<Block>& order() const { return order_; }

 private:
  // The operands of all instructions of a computation, in one array.
  struct Links {
    // Indexed by instruction within the computation. An entry is the index in
    // `operands` of the instruction's first operand.
    std::vector<uint32_t> first;
    std::vector<Node> operands;
  };
  // A slot of a hash table of names. It holds the upper bits of the hash, so
  // that most lookups need not compare names in the text.
  struct Slot {
    Node node = kNoNode;
    uint32_t hash = 0;
  };

  explicit Graph(const hlo::Program& program) : program_(&program) {}
  bool FindCalls(Findings& findings);
  bool AddCalls(Node node, Findings& findings);
  bool Sort(Findings& findings);
  const Links& LinksOf(Block block) const;
  // Returns the slot of a name, or the free slot where the name belongs.
  Slot& SlotOf(std::string_view name) const;

  const hlo::Program* program_;
  std::vector<Call> calls_;
  std::vector<Block> order_;
  // Indexed by block: the index in `calls_` of the first call to the block, or
  // kNoCall.
  std::vector<uint32_t> call_of_;
  // Whether several calls reach the block; indexed by block.
  std::vector<bool> shared_;
  // The operands of each computation. Their names are resolved when one of them
  // is first looked up, because most computations are never looked at.
  mutable std::unordered_map<Block, Links> links_;
  // A hash table with linear probing. It has the names of the computation whose
  // operands are being resolved.
  mutable std::vector<Slot> names_;
};

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

enum class What : uint8_t { kActivation, kParameter, kGradient, kInput };
std::string_view WhatName(What what);  // "activation"

struct Moved {
  What what = What::kActivation;
  std::string name;   // parameter's name; empty if unknown
  std::string shape;  // "f32[64,64]", the operand's shape on a device
};

class Entry {
 public:
  explicit Entry(const Graph& graph);

  // Returns the kind and the name of an entry parameter. The name is the
  // parameter's path inside its argument (`layers/gate` for
  // `p['layers']['gate']`), or the argument's name if it has no path. The kind
  // is kInput for an argument without a path, and for an argument whose name or
  // dtype suggests a batch (`batch['image']`, or tokens). The kind of all other
  // entry parameters is kParameter. For other instructions, returns an
  // activation without a name.
  Moved Of(Node parameter) const;
  // Returns whether a parameter has this shape on a device. The array is in a
  // computation that runs `runs` times. It may be one layer of a stacked
  // parameter: [16,64] is one layer of [4,16,64] if `runs` is a multiple of 4,
  // as in a loop over the layers, or if `runs` is 1. If `sliced`, [1,16,64] is
  // one layer as well. A matrix also matches a parameter with the transposed
  // shape. If `name` is not empty, only parameters with this name are compared.
  // Equal shapes do not show that the array is the parameter.
  bool HasShape(const hlo::Array& array, int64_t runs,
                std::string_view name = {}, bool sliced = true) const;
  // Returns whether the gradient of a parameter may have this shape before a
  // reduction over `members` devices. The gradient has the parameter's shape as
  // in HasShape, or it has one dimension that is `members` times as large.
  bool HasGradient(const hlo::Array& array, int64_t runs,
                   int64_t members) const;

 private:
  struct Param {
    std::string name;
    hlo::Array array;
    bool is_input = true;
  };
  using Dims = std::vector<int64_t>;

  // Returns whether a parameter has these dimensions or, for a matrix, their
  // transpose.
  bool Look(const Dims& dims, int64_t runs, std::string_view name,
            bool transposed = false) const;

  std::map<Node, Param> params_;
  // The parameters, keyed by the dimensions of their shape on a device. The
  // keys of `by_layer_` lack the first dimension, which may count layers.
  std::map<Dims, std::vector<const Param*>> by_dims_, by_layer_;
  std::multimap<std::string_view, const Param*> by_name_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GRAPH_H_
