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

}  // namespace shardc::audit
