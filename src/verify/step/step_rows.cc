// Writes the rows of a step's report. A row describes a collective and the op
// for which it runs. Consecutive layers with equal rows are joined. For
// example, an all_reduce over tp runs for the op `linear o` of each of 32
// layers:
//
//   layer 0-31  linear o  [b,t,d]  b:fsdp+dp  all_reduce tp  192.0 MiB
//
// If several ops have the same sharding conflict, the report has one line with
// their number.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "source/digest.h"
#include "source/list.h"
#include "source/size.h"
#include "step/program.h"
#include "verify/step/step_report.h"

namespace shardc::verify {
namespace {

using step::Graph;
using step::Instruction;
using step::InstructionKind;
using step::Op;
using step::Phase;
using step::Program;

void DescribePeak(const LoweredStep& full, int64_t element_bytes,
                  StepReport& out) {
  const step::PeakMemory peak = step::PeakOf(
      full.model.graph, *full.program, full.sizes, {.values = element_bytes});
  out.peak.bytes = peak.bytes;
  out.peak.instruction = peak.instruction;
  out.peak.instructions = static_cast<int64_t>(full.program->code.size());
  const int32_t index = peak.instruction < 0
                            ? -1
                            : full.program->code[AsIndex(peak.instruction)].op;
  out.peak.part = "model";
  out.peak.op = "results";
  if (index < 0) return;
  const Op& op = full.model.graph.ops[AsIndex(index)];
  out.peak.phase = op.phase;
  out.peak.part = StepPartName(full.model.graph, op);
  out.peak.op = StepOpName(op);
}

void CountFlops(const LoweredStep& full, StepReport& out) {
  const Graph& graph = full.model.graph;
  for (const Instruction& one : full.program->code) {
    if (one.kind != InstructionKind::kLocal) continue;
    const Op& op = graph.ops[AsIndex(one.op)];
    const double flops = step::FlopsOf(graph, *full.program, one, full.sizes);
    out.flops.by_phase[static_cast<size_t>(op.phase)] += flops;
    if (step::IsMatmul(graph, op)) out.flops.matmuls += flops;
  }
}

class RowWriter {
 public:
  RowWriter(const StepRequest& request, const LoweredStep& full,
            StepReport& out)
      : request_(request),
        full_(full),
        graph_(full.model.graph),
        program_(*full.program),
        out_(out) {}

  std::vector<int32_t> Run() {
    for (const Instruction& step : program_.code) {
      if (step.kind == InstructionKind::kCollective) AddRow(step);
    }
    for (const step::ShardingConflict& conflict : program_.conflicts) {
      AddConflict(conflict);
    }
    out_.notes = program_.notes;
    for (const std::string& note : request_.compiled->Axes().notes) {
      AddOnce(out_.notes, note);
    }
    out_.program = Sha256(text_);
    return std::move(ops_);
  }

 private:
  bool InPart(const std::string& part) const {
    return request_.part.empty() || request_.part == part;
  }

  void AddRow(const Instruction& step) {
    const int64_t bytes = step::SentBytes(graph_, program_, step, full_.sizes,
                                          request_.element_bytes);
    const step::Slot& from = program_.slots[AsIndex(step.in[0])];
    const step::Slot& to = program_.slots[AsIndex(step.out)];
    StepRow row;
    if (step.op >= 0) {
      const Op& op = graph_.ops[AsIndex(step.op)];
      row.part = StepPartName(graph_, op);
      row.phase = op.phase;
      row.micro = op.micro;
      row.op = StepOpName(op);
    } else {
      row.part = "model";
      row.op = "results";
    }
    row.result = StepLabelsText(graph_, from.value);
    row.specs =
        step::ShardingText(graph_, program_.axes, from.value, from.sharding) +
        " -> " +
        step::ShardingText(graph_, program_.axes, to.value, to.sharding);
    row.collective = step.collective;
    row.axes = program_.axes.Group(step.axes);
    row.bytes = bytes;
    text_ += row.part + "|" + row.op + "|" + row.result + "|" + row.specs +
             "|" + std::string(CollectiveName(step.collective)) + "|" +
             GroupText(row.axes) + "\n";
    if (!InPart(row.part)) return;
    AddTraffic(row);
    ops_.push_back(step.op);
    out_.rows.push_back(std::move(row));
  }

  void AddTraffic(const StepRow& row) {
    for (StepTraffic& one : out_.traffic) {
      if (one.phase == row.phase && one.collective == *row.collective &&
          one.axes == row.axes) {
        ++one.count;
        one.bytes += row.bytes;
        return;
      }
    }
    out_.traffic.push_back(
        {row.phase, *row.collective, row.axes, 1, row.bytes});
  }

  void AddConflict(const step::ShardingConflict& conflict) {
    const Op& op = graph_.ops[AsIndex(conflict.op)];
    if (!InPart(StepPartName(graph_, op))) return;
    const auto name = [&](step::LabelId label) {
      return label < 0 ? std::string("gathered")
                       : graph_.labels[AsIndex(label)].name;
    };
    StepConflict out;
    out.part = PhaseName(op.phase);
    out.op = StepOpName(op);
    out.axis = program_.axes.names[conflict.axis];
    for (step::LabelId label : conflict.labels) {
      out.labels.push_back(name(label));
    }
    out.chosen = name(conflict.chosen);
    out.cheapest = name(conflict.cheapest);
    out.bytes = conflict.bytes;
    out.least = conflict.least;
    const auto key =
        std::make_tuple(out.part, out.op, out.axis + out.chosen + out.cheapest);
    const auto [found, fresh] = known_.emplace(key, out_.conflicts.size());
    if (fresh) {
      out_.conflicts.push_back(std::move(out));
    } else {
      StepConflict& same = out_.conflicts[found->second];
      ++same.count;
      same.bytes += out.bytes;
      same.least += out.least;
    }
  }

  const StepRequest& request_;
  const LoweredStep& full_;
  const Graph& graph_;
  const Program& program_;
  StepReport& out_;
  // A line for each collective of the program. The digest of the program is
  // computed from this text.
  std::string text_;
  std::vector<int32_t> ops_;
  // The index of each conflict in the report's list, keyed by the conflict's
  // phase, op and chosen sharding.
  std::map<std::tuple<std::string, std::string, std::string>, size_t> known_;
};

using Rows = std::vector<StepRow>;
// Returns true if the rows of two layers are equal, except for the errors of
// the proof. Phases and micro-batches are compared too, because a joined row
// reports one phase and one micro-batch.
bool AreSame(const Rows& a, const Rows& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const StepRow &x = a[i], &y = b[i];
    if (x.phase != y.phase || x.micro != y.micro || x.op != y.op ||
        x.result != y.result || x.specs != y.specs ||
        x.collective != y.collective || x.axes != y.axes ||
        x.bytes != y.bytes) {
      return false;
    }
  }
  return true;
}

// Returns the first word of a part's name: "layer" for "layer 3", "model" for
// "model".
std::string StackName(const std::string& part) {
  return part.substr(0, part.find(' '));
}
std::string Range(const std::string& first, const std::string& last) {
  const int a = LayerNumber(first), b = LayerNumber(last);
  return StackName(first) + " " + std::to_string(std::min(a, b)) + "-" +
         std::to_string(std::max(a, b));
}

// Returns the index after the last row of a block. The block begins at row
// `at`, and its rows have the same part, phase and micro-batch.
size_t BlockEnd(const Rows& rows, size_t at) {
  size_t end = at;
  while (end < rows.size() && rows[end].part == rows[at].part &&
         rows[end].phase == rows[at].phase &&
         rows[end].micro == rows[at].micro) {
    ++end;
  }
  return end;
}

}  // namespace

bool IsLayerPart(std::string_view part) {
  return part.starts_with("layer ") || part.starts_with(kEncoderPrefix);
}

int LayerNumber(const std::string& part) {
  return std::stoi(part.substr(part.find(' ') + 1));
}

std::vector<OpPlace> PlacesOf(const Graph& graph) {
  std::vector<OpPlace> out;
  std::map<std::pair<int32_t, Phase>, int32_t> next;
  for (const Op& op : graph.ops) {
    out.emplace_back(op.layer, op.phase, next[{op.layer, op.phase}]++);
  }
  return out;
}

std::vector<int32_t> DescribeProgram(const StepRequest& request,
                                     const LoweredStep& full, StepReport& out) {
  DescribePeak(full, request.element_bytes, out);
  CountFlops(full, out);
  return RowWriter(request, full, out).Run();
}

void FoldLayers(std::vector<StepRow>& rows) {
  Rows folded;
  size_t at = 0;
  while (at < rows.size()) {
    size_t end = BlockEnd(rows, at);
    Rows block(rows.begin() + static_cast<int64_t>(at),
               rows.begin() + static_cast<int64_t>(end));
    const std::string first = block.front().part;
    std::string last = first;
    int64_t layers = 1;
    while (IsLayerPart(first) && end < rows.size()) {
      const size_t next = BlockEnd(rows, end);
      const Rows more(rows.begin() + static_cast<int64_t>(end),
                      rows.begin() + static_cast<int64_t>(next));
      if (StackName(first) != StackName(more.front().part) ||
          !AreSame(block, more)) {
        break;
      }
      for (size_t i = 0; i < block.size(); ++i) {
        if (!more[i].error) continue;
        if (!block[i].error || *more[i].error > *block[i].error) {
          block[i].error = more[i].error;
          block[i].allowed = more[i].allowed;
        }
      }
      last = more.front().part;
      ++layers;
      end = next;
    }
    for (StepRow& row : block) {
      row.layers = layers;
      if (layers > 1) row.part = Range(first, last);
      folded.push_back(std::move(row));
    }
    at = end;
  }
  rows = std::move(folded);
}

namespace {

// Lists how a step uses a parameter, in one pass over the program of all
// layers. A value that depends only on the parameter, such as 1 + a norm's
// weight, is treated like the parameter. Every collective on these values or on
// the gradient becomes a line. For q with fsdp 8 and tp 4, the lines are:
//
//   forward   linear q    all_gather fsdp
//   backward  d:linear q  all_gather fsdp, reduce_scatter fsdp

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
    if (!IsAmong(row, rows)) continue;
    Follower(request, *of, i, out).Run();
    break;
  }
  return out;
}

}  // namespace shardc::verify
