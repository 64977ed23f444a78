// Lists how a step uses a parameter, in one pass over the program of all
// layers. A value that depends only on the parameter, such as 1 + a norm's
// weight, is treated like the parameter. Every collective on these values or on
// the gradient becomes a line. For q with fsdp 8 and tp 4, the lines are:
//
//   forward   linear q    all_gather fsdp
//   backward  d:linear q  all_gather fsdp, reduce_scatter fsdp
#include "verify/step/parameter_step.h"

#include <algorithm>
#include <utility>

#include "source/size.h"

namespace shardc::verify {
namespace {

using step::Graph;
using step::Instruction;
using step::InstructionKind;
using step::Op;
using step::Program;
using step::ValueId;

class Follower {
 public:
  Follower(const StepInputs& request, const LoweredStep& of, size_t parameter,
           ParameterStep& out)
      : request_(request),
        of_(of),
        graph_(of.model.graph),
        program_(*of.program),
        parameter_(parameter),
        out_(out) {}

  void Run() {
    const step::Parameter& parameter = graph_.parameters[parameter_];
    out_.takes_part = true;
    out_.role = parameter.role;
    if (parameter.layer >= 0) {
      out_.role += " of layer " + std::to_string(parameter.layer);
    }
    out_.stacked = parameter.manifest_rows.size() > 1;
    out_.labels = StepLabelsText(graph_, parameter.value);
    FindOwn();
    if (parameter_ < graph_.gradients.size()) {
      gradient_ = graph_.gradients[parameter_];
    }
    bool first = true;
    for (const Instruction& step : program_.code) {
      if (first && step.kind == InstructionKind::kInput &&
          ValueOf(step.out) == parameter.value) {
        out_.sharding = ShardingOf(step.out);
        first = false;
      }
      if (step.kind == InstructionKind::kLocal) AddUse(step);
      if (step.kind == InstructionKind::kCollective) AddMove(step);
    }
  }

 private:
  ValueId ValueOf(int32_t slot) const {
    return program_.slots[AsIndex(slot)].value;
  }
  std::string ShardingOf(int32_t slot) const {
    return step::ShardingText(graph_, program_.axes, ValueOf(slot),
                              program_.slots[AsIndex(slot)].sharding);
  }

  // Finds the values that depend only on the parameter. The optimizer's results
  // are not included.
  void FindOwn() {
    own_.assign(graph_.values.size(), 0);
    own_[AsIndex(graph_.parameters[parameter_].value)] = 1;
    for (const Op& op : graph_.ops) {
      if (op.in.empty() || op.phase == step::Phase::kOptimizer) continue;
      const bool all = std::all_of(op.in.begin(), op.in.end(), [&](ValueId in) {
        return own_[AsIndex(in)] != 0;
      });
      if (all) own_[AsIndex(op.out)] = 1;
    }
  }

  void AddUse(const Instruction& step) {
    const Op& op = graph_.ops[AsIndex(step.op)];
    if (op.out == gradient_) {
      out_.gradient = ShardingOf(step.out);
    }
    if (own_[AsIndex(op.out)] != 0) return;
    for (const int32_t slot : step.in) {
      if (own_[AsIndex(ValueOf(slot))] == 0) continue;
      const std::string result =
          StepLabelsText(graph_, op.out) + " " + ShardingOf(step.out);
      // AdamW has three results, the parameter and two moments. They are listed
      // as one use.
      if (!out_.uses.empty() && op.kind == step::OpKind::kAdamW &&
          out_.uses.back().op == StepOpName(op)) {
        return;
      }
      out_.uses.push_back({op.phase, StepPartName(graph_, op), StepOpName(op),
                           ShardingOf(slot), result});
      return;
    }
  }

  void AddMove(const Instruction& step) {
    const ValueId value = ValueOf(step.in[0]);
    const bool gradient = value == gradient_;
    if (!gradient && own_[AsIndex(value)] == 0) return;
    ParameterMove move;
    if (step.op >= 0) {
      const Op& op = graph_.ops[AsIndex(step.op)];
      move.phase = op.phase;
      move.part = StepPartName(graph_, op);
      move.op = StepOpName(op);
    }
    move.gradient = gradient;
    move.specs = ShardingOf(step.in[0]) + " -> " + ShardingOf(step.out);
    move.collective = step.collective;
    move.axes = program_.axes.Group(step.axes);
    move.bytes = step::SentBytes(graph_, program_, step, of_.sizes,
                                 request_.element_bytes);
    out_.moves.push_back(std::move(move));
  }

  const StepInputs& request_;
  const LoweredStep& of_;
  const Graph& graph_;
  const Program& program_;
  const size_t parameter_;
  ParameterStep& out_;
  ValueId gradient_ = step::kNoValue;
  // Indexed by ValueId: 1 if the value depends only on the parameter, else 0.
  std::vector<char> own_;
};

}  // namespace

int64_t ParameterStep::Sent() const {
  int64_t out = 0;
  for (const ParameterMove& move : moves) out += move.bytes;
  return out;
}

std::optional<ParameterStep> FollowParameter(const StepInputs& request,
                                             int64_t row, Findings& findings) {
  auto of = BuildStep(request, {}, findings);
  if (!of) return std::nullopt;
  ParameterStep out;
  out.mode = request.mode;
  out.mesh = request.compiled->mesh;
  out.batch = request.batch;
  out.length = request.length;
  out.policy = request.policy;
  of->program =
      LowerStep(request, *of, request.compiled->step_mesh, out.unsupported);
  if (!of->program) return out;
  const std::vector<step::Parameter>& all = of->model.graph.parameters;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<int64_t>& rows = all[i].manifest_rows;
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) continue;
    Follower(request, *of, i, out).Run();
    break;
  }
  return out;
}

}  // namespace shardc::verify
