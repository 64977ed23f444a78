// An axis of tensor parallelism shards a parameter where it is multiplied, and
// through the matmul the activations that follow. For example, tp shards the
// columns of `up` and the rows of `down`, and one sum over tp is needed:
//
//   %h   = dot(%x, %up)            h is sharded over tp because of `up`
//   %y   = dot(%h, %down)
//   %sum = all-reduce(%y)          over tp
//
// Two patterns show that a spec and a sharding constraint disagree:
//
//   1. The activation is gathered again, although a matmul shards it: because
//      of a constraint that leaves out tp, or because the spec of `down` shards
//      its columns. ShardersOf(%h) returns `up`.
//   2. An activation is sliced for a parameter whose rows are sharded, and the
//      matmul is summed and sliced again. If `up` has the spec of `down`, the
//      program contains
//
//        %part = dynamic-slice(%x, ...)
//        %h    = all-reduce(dot(%part, %up))      each use slices %h
#include "audit/matmuls.h"

#include <algorithm>
#include <string_view>

#include "hlo/groups.h"
#include "importers/rules/exact.h"
#include "source/size.h"

namespace shardc::audit {
namespace {

// Limits on the instructions between a parameter and its matmul, and on the
// matmuls between a parameter and a gathered value: in attention, the matmul
// with a weight, the scores and the weighted values.
constexpr int kMostMoves = 256;
constexpr int kMostMatmuls = 4;

bool HaveCommon(const std::set<std::string>& axes, const Members& over) {
  return std::ranges::any_of(
      over.axes, [&](const std::string& axis) { return axes.contains(axis); });
}

bool HasBatch(const hlo::Instruction& matmul) {
  return hlo::AttributeOf(matmul.attributes, "lhs_batch_dims").has_value();
}

}  // namespace

Matmuls::Matmuls(const Graph& graph, Tracer& tracer, const Entry& entry,
                 const Report& report, const Shardings& shardings)
    : graph_(graph),
      tracer_(tracer),
      entry_(entry),
      shardings_(shardings),
      elementwise_(graph) {
  for (const Traffic& one : report.traffic) {
    members_.emplace(one.node, one.members.get());
  }
}

// Follows an operand of a matmul back to a parameter of the entry. Axes over
// which it is gathered on the way do not shard it in the matmul.
std::optional<Matmuls::Multiplied> Matmuls::ParameterAt(Node matmul,
                                                        size_t operand) {
  const auto node = graph_.Operand(matmul, operand);
  if (!node) return std::nullopt;
  std::set<std::string> gathered;
  Value value{*node, {}};
  for (int i = 0; i < kMostMoves; ++i) {
    const auto sent = members_.find(value.node);
    if (sent != members_.end()) {
      gathered.insert(sent->second->axes.begin(), sent->second->axes.end());
    }
    auto before = tracer_.Back(value);
    if (!before) break;
    value = std::move(*before);
  }
  if (entry_.Of(value.node).what != What::kParameter) return std::nullopt;
  Multiplied out{value.node, shardings_.AxesOf(value.node)};
  for (const std::string& axis : gathered) out.axes.erase(axis);
  return out;
}

void Matmuls::ReadMatmuls() {
  if (factors_) return;
  factors_.emplace();
  for (const Block block : graph_.order()) {
    const hlo::Computation& computation = graph_.BlockAt(block);
    for (Node node = computation.begin; node < computation.end; ++node) {
      if (graph_.At(node).opcode != "dot") continue;
      for (const size_t i : {size_t{0}, size_t{1}}) {
        const auto parameter = ParameterAt(node, i);
        const auto factor = graph_.Operand(node, 1 - i);
        if (!parameter || !factor) continue;
        const std::string name = entry_.Of(parameter->parameter).name;
        axes_[name].insert(parameter->axes.begin(), parameter->axes.end());
        std::optional<Value> value = Value{*factor, {}};
        for (int moves = 0; value && moves < kMostMoves; ++moves) {
          (*factors_)[value->node].insert(name);
          value = tracer_.Back(*value);
        }
      }
    }
  }
}

bool Matmuls::Shards(const std::string& axis) {
  ReadMatmuls();
  return std::ranges::any_of(
      axes_, [&](const auto& one) { return one.second.contains(axis); });
}

bool Matmuls::Keeps(const std::string& name, const Members& over) {
  ReadMatmuls();
  const auto found = axes_.find(name);
  return found != axes_.end() && HaveCommon(found->second, over);
}

std::string Matmuls::FactorOf(Node value) {
  ReadMatmuls();
  const auto found = factors_->find(value);
  return found == factors_->end() || found->second.size() != 1
             ? std::string()
             : *found->second.begin();
}

void Matmuls::Search(Node value, const Members& over, int depth,
                     std::set<std::string>& out) {
  if (depth > kMostMatmuls || !searched_.insert(value).second) return;
  const Origins origins = elementwise_.OriginsOf({value, {}}, false);
  for (const Node matmul : origins.matmuls) {
    bool has_parameter = false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto one = ParameterAt(matmul, i);
      if (!one) continue;
      has_parameter = true;
      if (HaveCommon(one->axes, over) && !HasBatch(graph_.At(matmul))) {
        out.insert(entry_.Of(one->parameter).name);
      }
    }
    if (has_parameter) continue;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto operand = graph_.Operand(matmul, i);
      if (operand) Search(*operand, over, depth + 1, out);
    }
  }
}

std::set<std::string> Matmuls::ShardersOf(Node value, const Members& over) {
  std::set<std::string> out;
  searched_.clear();
  if (over.named) Search(value, over, 0, out);
  return out;
}

// Returns whether a slice is a part of a reduce-scatter, which CPUs run as an
// all-reduce of which each device keeps a slice.
bool Matmuls::IsScattered(Node slice, Uses& uses) {
  const auto operand = graph_.Operand(slice, 0);
  if (!operand) return true;
  const Value source = tracer_.SourceOf({*operand, {}});
  return graph_.At(source.node).opcode.starts_with("all-reduce") &&
         uses.AllSlice(source.node);
}

std::optional<std::string> Matmuls::SlicedFor(const Traffic& sum, Uses& uses) {
  const auto operand = graph_.Operand(sum.node, AsIndex(sum.operand));
  if (!operand || !sum.members->named) return std::nullopt;
  const Node matmul = tracer_.SourceOf({*operand, {}}).node;
  if (graph_.At(matmul).opcode != "dot" || HasBatch(graph_.At(matmul))) {
    return std::nullopt;
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto one = ParameterAt(matmul, i);
    const auto factor = graph_.Operand(matmul, 1 - i);
    if (!one || !factor || !HaveCommon(one->axes, *sum.members)) continue;
    for (const Node slice :
         elementwise_.OriginsOf({*factor, {}}, false).slices) {
      const auto whole = graph_.Operand(slice, 0);
      if (!whole) continue;
      const auto before =
          hlo::ArraysOf(graph_.At(*whole).type, hlo::kOneOrMore);
      const auto after = hlo::ArraysOf(graph_.At(slice).type, hlo::kOneOrMore);
      const bool parts = before.size() == 1 && after.size() == 1 &&
                         before[0].Elements().value() ==
                             (after[0].Elements() * sum.members->size).value();
      if (parts && before[0].dims.size() > 1 && !IsScattered(slice, uses)) {
        return entry_.Of(one->parameter).name;
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardc::audit
