// Finds the stage of each op in one pass over the ops. An op of a layer belongs
// to the layer's stage. For an op outside of the layers, the stage depends on
// the phase. In the forward phase it is the last stage if the op depends on a
// layer, and otherwise the first stage. In the backward phase it is the first
// stage if the op depends on a layer, and otherwise the last stage. With 4
// stages (0 to 3) of two layers each:
//
//   lookup embed -> layer 0 ... layer 7 -> linear head -> loss
//   0               0           3          3              3
//   d:lookup embed <- d:layer 0 ... <- d:linear head <- d:loss
//   0                 0                3               3
#include "step/stages.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "source/index.h"

namespace shardc::step {
namespace {

class Sorter {
 public:
  Sorter(const Graph& graph, const StageDivision& division,
         const std::map<ValueId, int32_t>& given, bool accumulated)
      : graph_(graph),
        division_(division),
        given_(given),
        accumulated_(accumulated),
        of_(graph.values.size()) {}

  std::vector<OpStage> Run() {
    for (const Data& data : graph_.data) {
      of_[AsIndex(data.value)].what.work = StageWork::kData;
    }
    std::vector<OpStage> out;
    out.reserve(graph_.ops.size());
    for (const Op& op : graph_.ops) {
      Reached& at = of_[AsIndex(op.out)];
      if (op.kind == OpKind::kInput) {
        if (at.what.work != StageWork::kData) {
          at.what.work = StageWork::kParameters;
        }
      } else {
        at = Sort(op);
      }
      out.push_back(at.what);
    }
    return out;
  }

 private:
  // The stage of the op that computes a value. `by_layer` is true if this op
  // belongs to a layer. It is also true if the op depends on an op of the same
  // phase (forward or backward) that belongs to a layer.
  struct Reached {
    OpStage what = {};
    bool by_layer = false;
  };

  Reached Sort(const Op& op) const {
    Reached out;
    bool parameters = true, data = true;
    for (const ValueId value : op.in) {
      const StageWork work = of_[AsIndex(value)].what.work;
      parameters = parameters && work == StageWork::kParameters;
      data = data && work == StageWork::kData;
    }
    if (op.phase == Phase::kOptimizer) {
      out.what.work = StageWork::kAfter;
    } else if (data || parameters) {
      out.what.work = data ? StageWork::kData : StageWork::kParameters;
    } else if (accumulated_ && op.micro < 0) {
      out.what.work = StageWork::kAfter;
    } else {
      SortTask(op, out);
    }
    return out;
  }

  void SortTask(const Op& op, Reached& out) const {
    out.what.work = StageWork::kTask;
    const auto given = given_.find(op.out);
    if (given != given_.end()) {
      out.what.stage = given->second;
      return;
    }
    if (op.layer >= 0) {
      out.by_layer = true;
      out.what.stage = AsIndex(op.layer) < division_.of_layer.size()
                           ? division_.of_layer[AsIndex(op.layer)]
                           : -1;
      return;
    }
    out.what.outside = true;
    for (const ValueId value : op.in) {
      const Reached& from = of_[AsIndex(value)];
      out.by_layer = out.by_layer || (from.by_layer && IsOf(op.phase, value));
    }
    const bool last = out.by_layer == (op.phase == Phase::kForward);
    out.what.stage = last ? division_.stages - 1 : 0;
  }

  bool IsOf(Phase phase, ValueId value) const {
    return phase_of_[AsIndex(value)] == phase;
  }

  const Graph& graph_;
  const StageDivision& division_;
  const std::map<ValueId, int32_t>& given_;
  const bool accumulated_;
  // Indexed by ValueId: the stage of the op that computes the value.
  std::vector<Reached> of_;
  const std::vector<Phase> phase_of_ = PhasesOf();

  std::vector<Phase> PhasesOf() const {
    std::vector<Phase> out(graph_.values.size(), Phase::kForward);
    for (const Op& op : graph_.ops) out[AsIndex(op.out)] = op.phase;
    return out;
  }
};

}  // namespace

std::vector<OpStage> StagesOfOps(const Graph& graph,
                                 const StageDivision& division,
                                 const std::map<ValueId, int32_t>& given,
                                 bool accumulated) {
  return Sorter(graph, division, given, accumulated).Run();
}

std::vector<std::vector<int32_t>> StagesOfParameters(
    const Graph& graph, const std::vector<OpStage>& ops) {
  // Maps each value that depends on parameters only to the indices of these
  // parameters.
  std::map<ValueId, std::set<size_t>> made_of;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    made_of[graph.parameters[i].value] = {i};
  }
  std::vector<std::set<int32_t>> stages(graph.parameters.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    for (const ValueId value : op.in) {
      const auto found = made_of.find(value);
      if (found == made_of.end()) continue;
      const std::set<size_t> parameters = found->second;
      if (ops[i].work == StageWork::kParameters) {
        made_of[op.out].insert(parameters.begin(), parameters.end());
      } else if (ops[i].work == StageWork::kTask) {
        for (const size_t parameter : parameters) {
          stages[parameter].insert(ops[i].stage);
        }
      }
    }
  }
  std::vector<std::vector<int32_t>> out;
  out.reserve(stages.size());
  for (const std::set<int32_t>& one : stages) {
    out.emplace_back(one.begin(), one.end());
  }
  return out;
}

}  // namespace shardc::step
