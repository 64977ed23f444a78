// Represents the instructions of a program as a graph. It finds the instruction
// that an operand's name refers to, and the instructions that call a
// computation.
#ifndef SHARDC_AUDIT_GRAPH_H_
#define SHARDC_AUDIT_GRAPH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

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

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_GRAPH_H_
