// Computations are called by loops, conditionals, fusions, calls and
// asynchronous starts. The calls of a program form no cycle; they are sorted so
// that callers come first:
//
//   entry: while(body=%b), fusion(calls=%f);  %b: fusion(calls=%f)
//   ->  entry, b, f
//
// The functions that a reduction applies are left out: they send nothing.
#include "audit/graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "source/wording.h"

namespace shardc::audit {
namespace {

using hlo::AttributeOf;

struct CallAttribute {
  std::string_view opcode, key;
  CallKind kind;
};
// Asynchronous updates and dones repeat the `calls` of their start.
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

// Appends the calls from an instruction. Returns the name of a computation that
// the text lacks; empty: there is none.
std::string_view ReadCalls(const hlo::Program& program, Node node,
                           std::vector<Call>& out) {
  const hlo::Instruction& instruction = program.instructions[node];
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
  for (Node node = 0; node < program_->instructions.size(); ++node) {
    if (!AddCalls(node, findings)) return false;
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

// Kahn's algorithm over the calls that the entry reaches.
bool Graph::Sort(Findings& findings) {
  std::vector<std::vector<uint32_t>> calls_from(program_->computations.size());
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    calls_from[BlockOf(calls_[i].from)].push_back(i);
  }
  std::vector<int64_t> callers(program_->computations.size(), 0);
  std::vector<bool> reached(program_->computations.size(), false);
  std::vector<Block> found = {program_->entry};
  reached[program_->entry] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    for (const uint32_t call : calls_from[found[i]]) {
      const Block to = calls_[call].to;
      ++callers[to];
      if (!reached[to]) found.push_back(to);
      reached[to] = true;
    }
  }
  std::vector<Call> sorted;
  if (callers[program_->entry] == 0) order_.push_back(program_->entry);
  for (size_t i = 0; i < order_.size(); ++i) {
    for (const uint32_t index : calls_from[order_[i]]) {
      const Call& call = calls_[index];
      call_of_.emplace(call.to, static_cast<uint32_t>(sorted.size()));
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
  // Of computations without instructions that begin here, the last one is the
  // owner.
  return static_cast<Block>(after - all.begin() - 1);
}

const Graph::Names& Graph::NamesOf(Block block) const {
  const auto [found, added] = names_.try_emplace(block);
  Names& names = found->second;
  if (!added) return names;
  const hlo::Computation& computation = BlockAt(block);
  // At most half of the slots are taken, so that every search ends.
  names.assign(
      std::bit_ceil(2 * size_t{computation.end - computation.begin} + 2),
      kFree);
  for (Node node = computation.begin; node < computation.end; ++node) {
    const std::string_view name = At(node).name;
    size_t slot = std::hash<std::string_view>()(name) & (names.size() - 1);
    while (names[slot] != kFree && At(names[slot]).name != name) {
      slot = (slot + 1) & (names.size() - 1);
    }
    if (names[slot] == kFree) names[slot] = node;
  }
  return names;
}

std::optional<Node> Graph::Find(const Names& names,
                                std::string_view name) const {
  size_t slot = std::hash<std::string_view>()(name) & (names.size() - 1);
  while (names[slot] != kFree) {
    if (At(names[slot]).name == name) return names[slot];
    slot = (slot + 1) & (names.size() - 1);
  }
  return std::nullopt;
}

std::vector<std::optional<Node>> Graph::Operands(Node node) const {
  std::vector<std::optional<Node>> out;
  std::string_view list = At(node).operands;
  const Names& names = NamesOf(BlockOf(node));
  for (std::string_view item; hlo::NextItem(list, item);) {
    out.push_back(Find(names, hlo::NameOfOperand(item)));
  }
  return out;
}

std::optional<Node> Graph::Operand(Node node, size_t index) const {
  std::string_view list = At(node).operands;
  std::string_view item;
  for (size_t i = 0; i <= index; ++i) {
    if (!hlo::NextItem(list, item)) return std::nullopt;
  }
  return Find(NamesOf(BlockOf(node)), hlo::NameOfOperand(item));
}

std::vector<Call> Graph::CallsFrom(Node node) const {
  std::vector<Call> out;
  ReadCalls(*program_, node, out);
  return out;
}

const Call* Graph::CallOf(Block block) const {
  const auto found = call_of_.find(block);
  return found == call_of_.end() ? nullptr : &calls_[found->second];
}

}  // namespace shardc::audit
